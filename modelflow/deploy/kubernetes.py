"""The Kubernetes objects that serve an application: plain, and as templates of a chart.

One module makes both. A chart with its default values therefore gives the objects of the manifests.
"""

from typing import Any, NamedTuple

from modelflow.deploy.application import LEAVING_SECONDS, USER, Application
from modelflow.deploy.values import ABSENT, Values

QUEUE_SERIES = "modelflow_node_queue_rows"
"""The gauge of ``/metrics`` by which pods are scaled: the rows in the queue of a node."""

QUEUE_METRIC = "modelflow_queue_rows"
"""The name that prometheus-adapter gives to the sum over the nodes of a pod."""

# Batches that may wait in each pod before another pod is started, and the least rows.
_BATCHES, _LEAST_ROWS = 2, 8

# Seconds between two probes, and the number of failures that a probe allows.
_PERIOD = 5
_READY_FAILURES, _LIVE_FAILURES = 2, 6


class Placed(NamedTuple):
    """An object and its file."""

    file: str
    object: dict[str, Any]
    flag: str = ""
    """The value that must be true for the object to exist. If empty, the object always exists."""


def defaults(application: Application) -> dict[str, Any]:
    """Returns the values that a deployment may change: the ``values.yaml`` of a chart."""
    needs, (least, most) = application.needs, application.replicas
    limits: dict[str, Any] = {"memory": "2Gi"}
    if needs.gpus:
        limits["nvidia.com/gpu"] = str(needs.gpus)
    gpu_nodes = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "image": application.image,
        "imagePullPolicy": "IfNotPresent",
        "settings": application.environment,
        "resources": {
            "requests": {"cpu": str(application.processors), "memory": "1Gi"},
            "limits": limits,
        },
        "replicas": least,
        "autoscaling": {
            "enabled": least < most and not application.prometheus,
            "minReplicas": least,
            "maxReplicas": most,
            "queueRows": max(_LEAST_ROWS, _BATCHES * needs.batch),
        },
        "tmpSize": "1Gi",
        "startup": {"periodSeconds": _PERIOD, "failureThreshold": 120},
        "disruption": {"enabled": True, "maxUnavailable": 1},
        "networkPolicy": {"enabled": True, "from": []},
        "nodeSelector": {},
        "tolerations": gpu_nodes if needs.gpus else [],
        "affinity": {},
    }


def objects(application: Application, values: Values) -> list[Placed]:
    """Returns the objects.

    Args:
        application: The application.
        values: The source of `defaults`, or of the values that replace them.
    """
    labels = {"app.kubernetes.io/name": application.name, "app.kubernetes.io/instance": values.name}
    config = _object("v1", "ConfigMap", values, labels, data=values.of("settings"))
    account = _object("v1", "ServiceAccount", values, labels, automountServiceAccountToken=False)
    return [
        Placed("configmap.yaml", config),
        Placed("serviceaccount.yaml", account),
        Placed("deployment.yaml", _deployment(application, values, labels)),
        Placed("service.yaml", _service(application, values, labels)),
        Placed("autoscaler.yaml", _autoscaler(values, labels), "autoscaling.enabled"),
        Placed("disruption.yaml", _disruption(values, labels), "disruption.enabled"),
        Placed("networkpolicy.yaml", _policy(application, values, labels), "networkPolicy.enabled"),
    ]


def adapter_rules() -> dict[str, Any]:
    """Returns the values with which prometheus-adapter's chart provides the queue metric."""
    return {
        "rules": {
            "custom": [
                {
                    "seriesQuery": f'{QUEUE_SERIES}{{namespace!="",pod!=""}}',
                    "resources": {
                        "overrides": {
                            "namespace": {"resource": "namespace"},
                            "pod": {"resource": "pod"},
                        }
                    },
                    "name": {"matches": f"^{QUEUE_SERIES}$", "as": QUEUE_METRIC},
                    # More of these pods would not shorten the queues in replicas of far nodes.
                    "metricsQuery": (
                        'sum(avg_over_time(<<.Series>>{<<.LabelMatchers>>,replica=""}[1m])) '
                        "by (<<.GroupBy>>)"
                    ),
                }
            ]
        }
    }


def _object(
    version: str, kind: str, values: Values, labels: dict[str, Any], **more: Any
) -> dict[str, Any]:
    about = {"name": values.name, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": about, **more}


def _deployment(application: Application, values: Values, labels: dict[str, Any]) -> dict[str, Any]:
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    spec = {
        "replicas": (
            ABSENT  # KEDA sets the number
            if application.prometheus
            else values.unless("autoscaling.enabled", "replicas")
        ),
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": _pod(application, values, labels),
    }
    return _object("apps/v1", "Deployment", values, labels, spec=spec)


def _pod(application: Application, values: Values, labels: dict[str, Any]) -> dict[str, Any]:
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/scheme": application.scheme,
        "prometheus.io/port": str(application.http_port),
        "prometheus.io/path": "/metrics",
        "modelflow/settings": values.digest("settings"),  # changed settings restart the pods
    }
    drain = "settings.MODELFLOW_SERVE_DRAIN_TIMEOUT"
    secrets = [
        {"name": f"secret-{place}", "secret": {"secretName": name}}
        for place, name in enumerate(application.mounts)
    ]
    beyond = LEAVING_SECONDS + application.process_seconds - application.drain
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            "serviceAccountName": values.name,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": values.plus(drain, beyond),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "nodeSelector": values.optional("nodeSelector"),
            "tolerations": values.optional("tolerations"),
            "affinity": values.optional("affinity"),
            "topologySpreadConstraints": [spread],
            "containers": [_container(application, values)],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": values.of("tmpSize")}}, *secrets],
        },
    }


def _container(application: Application, values: Values) -> dict[str, Any]:
    wait = f"import time; time.sleep({LEAVING_SECONDS})"
    secrets = [
        {"name": f"secret-{place}", "mountPath": path, "readOnly": True}
        for place, path in enumerate(application.mounts.values())
    ]
    ready, live = _asks(application, "/readyz"), _asks(application, "/livez")
    return {
        "name": "serve",
        "image": values.of("image"),
        "imagePullPolicy": values.of("imagePullPolicy"),
        "ports": [
            {"name": name, "containerPort": port} for name, port in application.ports.items()
        ],
        "envFrom": [
            {"configMapRef": {"name": values.name}},
            # Secret variables, which the operator provides.
            {"secretRef": {"name": values.name, "optional": True}},
        ],
        "resources": values.of("resources"),
        "startupProbe": {
            **ready,
            "periodSeconds": values.of("startup.periodSeconds"),
            "failureThreshold": values.of("startup.failureThreshold"),
        },
        "readinessProbe": {**ready, "failureThreshold": _READY_FAILURES},
        "livenessProbe": {**live, "failureThreshold": _LIVE_FAILURES},
        # The pod continues to serve until all clients know that it leaves.
        "lifecycle": {"preStop": {"exec": {"command": ["python", "-c", wait]}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *secrets],
    }


def _asks(application: Application, path: str) -> dict[str, Any]:
    scheme = {"scheme": "HTTPS"} if application.scheme == "https" else {}
    ask = {"path": path, "port": "http", **scheme}
    return {"httpGet": ask, "periodSeconds": _PERIOD, "timeoutSeconds": _PERIOD}


def _service(application: Application, values: Values, labels: dict[str, Any]) -> dict[str, Any]:
    ports = [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
        for name, port in application.ports.items()
    ]
    spec = {"type": "ClusterIP", "selector": labels, "ports": ports}
    return _object("v1", "Service", values, labels, spec=spec)


def _autoscaler(values: Values, labels: dict[str, Any]) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": values.name}
    rows = {"type": "AverageValue", "averageValue": values.of("autoscaling.queueRows")}
    spec = {
        "scaleTargetRef": target,
        "minReplicas": values.of("autoscaling.minReplicas"),
        "maxReplicas": values.of("autoscaling.maxReplicas"),
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": QUEUE_METRIC}, "target": rows}}],
    }
    return _object("autoscaling/v2", "HorizontalPodAutoscaler", values, labels, spec=spec)


def _disruption(values: Values, labels: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "maxUnavailable": values.of("disruption.maxUnavailable"),
        "selector": {"matchLabels": labels},
    }
    return _object("policy/v1", "PodDisruptionBudget", values, labels, spec=spec)


def _policy(application: Application, values: Values, labels: dict[str, Any]) -> dict[str, Any]:
    ports = [{"port": port, "protocol": "TCP"} for port in application.ports.values()]
    spec = {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": ports, "from": values.optional("networkPolicy.from")}],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", values, labels, spec=spec)
