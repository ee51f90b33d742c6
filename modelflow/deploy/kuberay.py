"""The objects with which KubeRay's operator runs an application on a Ray cluster.

The cluster stands by itself; on it runs a job that works files off. What is served needs no Ray:
see `modelflow.deploy.kubernetes`.
"""

from typing import Any

from modelflow.deploy.application import USER, Application
from modelflow.deploy.kubernetes import Placed

__all__ = ["kuberay_objects"]

# Memory in which processes of one machine share arrays: a third of a pod's.
_POD_MEMORY, _SHARED_MEMORY = "6Gi", "2Gi"


def kuberay_objects(application: Application) -> list[Placed]:
    """Returns the cluster, and a job for files."""
    least, most = application.replicas
    run = (
        f"modelflow ray run /app/{application.archive} --replicas {least}..{most} "
        "--input '/data/in/*' --output /data/out/ --resume /data/out.done"
    )
    return [
        Placed("cluster.yaml", _cluster(application)),
        Placed("run.yaml", _job(application, f"{application.name}-run", run)),
    ]


def _meta(application: Application, name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/name": application.name}}


def _cluster(application: Application) -> dict[str, Any]:
    least, most = application.replicas
    head = {
        # No work of others beside what keeps the cluster.
        "rayStartParams": {"num-cpus": "0"},
        "template": _pod(application, "head", gpus=0),
    }
    workers = {
        "groupName": "replicas",
        "replicas": least,
        "minReplicas": least,
        "maxReplicas": most,
        "rayStartParams": {},
        "template": _pod(application, "worker", gpus=application.needs.gpus),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": _meta(application, application.name),
        "spec": {
            "enableInTreeAutoscaling": least < most,
            "headGroupSpec": head,
            "workerGroupSpecs": [workers],
        },
    }


def _pod(application: Application, name: str, *, gpus: int) -> dict[str, Any]:
    resources: dict[str, dict[str, str]] = {
        "requests": {"cpu": "2", "memory": _POD_MEMORY},
        "limits": {"cpu": "2", "memory": _POD_MEMORY},
    }
    if gpus:
        resources["limits"]["nvidia.com/gpu"] = str(gpus)
    container = {
        "name": f"ray-{name}",
        "image": application.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": key, "value": value} for key, value in application.environment.items()],
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    shared = {"medium": "Memory", "sizeLimit": _SHARED_MEMORY}
    return {
        "metadata": {"labels": {"app.kubernetes.io/name": application.name}},
        "spec": {
            "terminationGracePeriodSeconds": application.graces.pod,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "shm", "emptyDir": shared}],
        },
    }


def _job(application: Application, name: str, command: str) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _meta(application, name),
        "spec": {
            "entrypoint": command,
            "clusterSelector": {"ray.io/cluster": application.name},
            "submissionMode": "K8sJobMode",
        },
    }
