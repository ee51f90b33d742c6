"""The objects with which KubeRay's operator runs an application on a Ray cluster.

The cluster stands by itself; on it runs a job that works files off. What is served needs no Ray:
see `modelflow.deploy.kubernetes`.
"""

import math
from typing import Any

from modelflow.deploy.application import USER, Application
from modelflow.deploy.kubernetes import Placed, secret_mounts, secret_volumes
from modelflow.deploy.yaml_text import ABSENT

__all__ = ["kuberay_note", "kuberay_objects"]

# Memory in which processes of one machine share arrays: a third of a pod's.
_POD_MEMORY, _SHARED_MEMORY = "6Gi", "2Gi"
_LEAST_CPUS = 2

# Where Ray says how it is, by its defaults: the agent of a node, the dashboard of the cluster.
_AGENT = "http://127.0.0.1:52365/api/local_raylet_healthz"
_DASHBOARD = "http://127.0.0.1:8265/api/gcs_healthz"
# Seconds between two looks, how long one may take, and how often it may fail: Ray starts slowly.
_PERIOD, _LONGEST, _READY_FAILURES, _LIVE_FAILURES = 5, 5, 10, 120


def kuberay_objects(application: Application) -> list[Placed]:
    """Returns the cluster, and a job for files."""
    least, most = application.replicas
    # Of what a graph places it says itself how many there are.
    replicas = "" if application.needs.placed else f"--replicas {least}..{most} "
    run = (
        f"modelflow ray run /app/{application.archive} {replicas}"
        "--input '/data/in/*' --output /data/out/ --resume /data/out.done"
    )
    return [
        Placed("cluster.yaml", _cluster(application)),
        Placed("run.yaml", _job(application, f"{application.name}-run", run)),
    ]


def kuberay_note(file: str) -> str:
    """Returns what stands at the head of a file."""
    return _NOTES[file]


_NOTES = {
    "cluster.yaml": "A replica of the graph, or of what it places, has a pod of its own.",
    "run.yaml": """Its paths are an example. Whoever submits it must see them: give the job a
submitterPodTemplate with your volume, or paths of a file system that the image mounts.""",
}


def _meta(application: Application, name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/name": application.name}}


def _cluster(application: Application) -> dict[str, Any]:
    needs = application.needs
    least, most = needs.replicas if needs.placed else application.replicas
    gpus = math.ceil(max(needs.gpus, needs.most("GPU")))
    head = {
        # No work of others beside what keeps the cluster.
        "rayStartParams": {"num-cpus": "0"},
        "template": _pod(application, "head", (_AGENT, _DASHBOARD)),
    }
    workers = {
        "groupName": "replicas",
        "replicas": least,
        "minReplicas": least,
        "maxReplicas": most,
        "rayStartParams": {},
        "template": _pod(application, "worker", (_AGENT,), gpus=gpus, cpus=needs.most("CPU")),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": _meta(application, application.name),
        "spec": {
            "rayVersion": application.ray or ABSENT,
            # The operator makes the token, a Secret: without it Ray runs what anybody sends.
            "authOptions": {"mode": "token"},
            "enableInTreeAutoscaling": least < most,
            "headGroupSpec": head,
            "workerGroupSpecs": [workers],
        },
    }


def _pod(
    application: Application,
    name: str,
    asked: tuple[str, ...],
    *,
    gpus: int = 0,
    cpus: float = 0.0,
) -> dict[str, Any]:
    amounts = {"cpu": str(max(_LEAST_CPUS, math.ceil(cpus))), "memory": _POD_MEMORY}
    resources: dict[str, dict[str, str]] = {"requests": dict(amounts), "limits": amounts}
    if gpus:
        resources["limits"]["nvidia.com/gpu"] = str(gpus)
    container = {
        "name": f"ray-{name}",
        "image": application.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": key, "value": value} for key, value in application.environment.items()],
        "resources": resources,
        # Those that the operator makes call wget, which an image of Python has not.
        "readinessProbe": {**_asks(asked), "failureThreshold": _READY_FAILURES},
        "livenessProbe": {**_asks(asked), "failureThreshold": _LIVE_FAILURES},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
            *secret_mounts(application),
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
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "shm", "emptyDir": shared},
                *secret_volumes(application),
            ],
        },
    }


def _asks(addresses: tuple[str, ...]) -> dict[str, Any]:
    """A probe that fails unless each of some addresses says that all is well."""
    program = (
        "import sys, urllib.request as r; "
        "o = r.build_opener(r.ProxyHandler({})); "
        f"sys.exit(not all(b'success' in o.open(a, timeout=2).read() for a in {addresses!r}))"
    )
    command = {"command": ["python", "-c", program]}
    return {"exec": command, "periodSeconds": _PERIOD, "timeoutSeconds": _LONGEST}


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
