"""Objects of KServe and KEDA, which a cluster knows if these are installed."""

from typing import Any

from modelflow.deploy.application import Application
from modelflow.deploy.kubernetes import QUEUE_SERIES

MODEL_FOLDER = "/mnt/models"
"""The folder into which KServe downloads a model."""

# KServe's default port of a container, and the port of its servers for gRPC.
_KSERVE_PORT, _GRPC_PORT = 8080, 9000


def make_serving_runtime(application: Application) -> dict[str, Any]:
    """Returns KServe's ``ServingRuntime``: the image as a server for models of an InferenceService.

    KServe puts the name of the InferenceService in place of ``{{.Name}}``.
    """
    container = {
        "name": "kserve-container",
        "image": application.image,
        "command": ["modelflow", "serve"],
        "args": [
            f"{{{{.Name}}}}={MODEL_FOLDER}",
            f"--http=0.0.0.0:{_KSERVE_PORT}",
            f"--grpc=0.0.0.0:{_GRPC_PORT}",
        ],
        # Knative takes a single port. For gRPC, name port 9000 h2c in place of this port.
        "ports": [{"name": "http1", "containerPort": _KSERVE_PORT, "protocol": "TCP"}],
        "env": [{"name": name, "value": value} for name, value in application.environment.items()],
        "resources": {
            "requests": {"cpu": str(application.processors), "memory": "1Gi"},
            "limits": {"memory": "2Gi"},
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": _KSERVE_PORT}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    formats = ("modelflow", "onnx", "tensorflow", "pytorch", "openvino")
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": application.name},
        "spec": {
            "protocolVersions": ["v1", "v2", "grpc-v2"],
            "supportedModelFormats": [{"name": name, "version": "1"} for name in formats],
            "multiModel": False,
            "containers": [container],
        },
    }


def make_scaled_object(application: Application, rows: int) -> dict[str, Any]:
    """Returns KEDA's ``ScaledObject``, which replaces the HorizontalPodAutoscaler.

    Args:
        application: The application, with the address of Prometheus.
        rows: The rows that may wait in each pod before another pod is started.
    """
    least, most = application.replicas
    # More pods would not shorten the queues in replicas of far nodes.
    series = f'{QUEUE_SERIES}{{replica="",pod=~"{application.name}-.*"}}'
    trigger = {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": application.prometheus,
            "query": f"sum(avg_over_time({series}[1m]))",
            "threshold": str(rows),
        },
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": application.name},
        "spec": {
            "scaleTargetRef": {"name": application.name},
            "minReplicaCount": least,
            "maxReplicaCount": most,
            "triggers": [trigger],
        },
    }
