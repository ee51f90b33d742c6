"""The objects of KServe and KEDA. The required fields are those of their CRDs."""

import re
import urllib.request

import pytest
import yaml

from modelflow.deploy.kubernetes import defaults
from modelflow.deploy.targets import TARGETS
from modelflow.flow import Flow
from modelflow.serve.server import ServeOptions, Server
from tests.deploy.applications import application

PROMETHEUS = "http://prometheus-server.monitoring:80"


def found(**changes):
    files = TARGETS["kubernetes"].files(application(**changes))
    return {path: yaml.safe_load(text) for path, text in files.items() if path.endswith(".yaml")}


def test_a_serving_runtime_serves_the_folder_of_kserve():
    runtime = found(is_for_kserve=True)["kserve/servingruntime.yaml"]
    assert (runtime["apiVersion"], runtime["kind"]) == (
        "serving.kserve.io/v1alpha1",
        "ServingRuntime",
    )
    spec = runtime["spec"]
    assert spec["protocolVersions"] == ["v1", "v2", "grpc-v2"]
    assert all(one["name"] for one in spec["supportedModelFormats"])
    (container,) = spec["containers"]
    assert container["name"] == "kserve-container"
    assert container["args"][0] == "{{.Name}}=/mnt/models"
    validate = pytest.importorskip("kubernetes_validate", reason="needs it").validate
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    validate({**pod, "spec": {"containers": [container]}}, "1.37", strict=True)


def test_the_command_of_the_runtime_exists():
    from modelflow.cli.serve.command import serve

    (container,) = found(is_for_kserve=True)["kserve/servingruntime.yaml"]["spec"]["containers"]
    assert container["command"] == ["modelflow", "serve"]
    names = ["-h", "--help"]  # click keeps the option of the first call
    with serve.make_context("serve", list(container["args"]), help_option_names=names) as context:
        assert context.params["sources"] == ("{{.Name}}=/mnt/models",)
        assert context.params["http"] == "0.0.0.0:8080"


def test_keda_scales_in_place_of_kubernetes_by_a_series_of_the_server():
    files = found(prometheus=PROMETHEUS, replicas=(2, 8))
    assert "kubernetes/autoscaler.yaml" not in files
    assert "kubernetes/autoscaler.yaml" in found(replicas=(2, 8))
    scaled = files["kubernetes/scaledobject.yaml"]
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = scaled["spec"]
    assert spec["scaleTargetRef"]["name"] == files["kubernetes/deployment.yaml"]["metadata"]["name"]
    assert "replicas" not in files["kubernetes/deployment.yaml"]["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 8)
    (trigger,) = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert trigger["metadata"]["serverAddress"] == PROMETHEUS
    rows = defaults(application())["autoscaling"]["queueRows"]
    assert trigger["metadata"]["threshold"] == str(rows)
    series = re.search(r"\((modelflow_\w+)\{", trigger["metadata"]["query"])[1]
    graph = Flow("digraph { a [type=input] top_k b [type=output] a -> top_k -> b }")
    with Server({"m": graph}, ServeOptions(http_port=0, grpc_port=None)) as server:
        text = urllib.request.urlopen(f"{server.address}/metrics").read().decode()
    assert f"# TYPE {series} gauge" in text
