"""The objects of Kubernetes."""

import re
import urllib.request

import pytest
import yaml

from modelflow.deploy.application import LEAVING_SECONDS
from modelflow.deploy.kubernetes import (
    QUEUE_METRIC,
    QUEUE_SERIES,
    adapter_rules,
    defaults,
    objects,
)
from modelflow.deploy.targets import TARGETS
from modelflow.deploy.values import PlainValues, yaml_text
from modelflow.flow import Flow
from modelflow.serve.server import ServeOptions, Server
from tests.deploy.applications import application

VERSIONS = ("1.28", "1.37")


def found(**changes):
    app = application(**changes)
    values = PlainValues(app.name, defaults(app))
    written = [yaml.safe_load(yaml_text(each.object)) for each in objects(app, values)]
    return {each["kind"]: each for each in written}


def pod(**changes):
    return found(**changes)["Deployment"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gpus": 2},
        {"grpc_port": None},
        {"replicas": (3, 3)},
        {"settings": {"A": ""}},
        {"mounts": {"tls": "/tls"}},
    ],
)
def test_the_manifests_are_as_the_schemas_of_kubernetes_say(changes, version):
    validate = pytest.importorskip("kubernetes_validate", reason="needs it").validate
    files = TARGETS["kubernetes"].files(application(**changes))
    manifests = [text for path, text in files.items() if path.startswith("kubernetes/")]
    kinds = set()
    for text in manifests:
        manifest = yaml.safe_load(text)
        validate(manifest, version, strict=True)
        kinds.add(manifest["kind"])
    scaled = set() if changes.get("replicas") else {"HorizontalPodAutoscaler"}
    assert kinds == scaled | {
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }


def test_the_schemas_would_see_a_misspelt_key():
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs it")
    wrong = found()["Deployment"]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(wrong, VERSIONS[1], strict=True)


def test_a_pod_is_scaled_by_a_gauge_that_the_server_really_has():
    graph = Flow("digraph { a [type=input] top_k b [type=output] a -> top_k -> b }")
    with Server({"m": graph}, ServeOptions(http_port=0, grpc_port=None)) as server:
        text = urllib.request.urlopen(f"{server.address}/metrics").read().decode()
    labels = re.search(rf"^{QUEUE_SERIES}\{{(.+?)\}} [\d.]+$", text, re.M)[1]
    assert 'node="top_k"' in labels
    assert f"# TYPE {QUEUE_SERIES} gauge" in text


def test_the_autoscaler_asks_for_what_the_adapter_gives():
    (metric,) = found()["HorizontalPodAutoscaler"]["spec"]["metrics"]
    (rule,) = adapter_rules()["rules"]["custom"]
    assert metric["type"] == "Pods"
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"] == QUEUE_METRIC
    assert re.match(rule["name"]["matches"], QUEUE_SERIES)
    assert rule["seriesQuery"].startswith(f"{QUEUE_SERIES}{{")
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": 64}


def test_a_fixed_number_of_pods_is_not_scaled():
    fixed, scaled = found(replicas=(3, 3)), found(replicas=(2, 8))
    assert defaults(application(replicas=(3, 3)))["autoscaling"]["enabled"] is False
    assert fixed["Deployment"]["spec"]["replicas"] == 3
    spec = scaled["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 8)


def test_a_pod_leaves_before_it_ends_and_is_killed_after_it_has_ended():
    spec, app = pod(drain=60), application(drain=60)
    (container,) = spec["containers"]
    assert spec["terminationGracePeriodSeconds"] == app.process_seconds + LEAVING_SECONDS
    (*_, program) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program.endswith(f"time.sleep({LEAVING_SECONDS})")
    rolling = found()["Deployment"]["spec"]["strategy"]["rollingUpdate"]
    assert rolling["maxUnavailable"] == 0


def test_the_probes_ask_what_they_are_for():
    (container,) = pod()["containers"]
    paths = {
        probe: container[f"{probe}Probe"]["httpGet"]["path"]
        for probe in ("startup", "readiness", "liveness")
    }
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/livez"}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8501, "grpc": 8500}


def test_a_pod_may_do_no_more_than_it_needs_to():
    spec = pod()
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert found()["ServiceAccount"]["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]


def test_gpus_are_asked_for_where_a_node_wants_them():
    def limits(spec):
        return spec["containers"][0]["resources"]["limits"]

    assert limits(pod(gpus=2))["nvidia.com/gpu"] == "2"
    assert "nvidia.com/gpu" not in limits(pod())
    assert [each["key"] for each in pod(gpus=1)["tolerations"]] == ["nvidia.com/gpu"]


def test_settings_come_by_the_environment_and_others_make_other_pods():
    def digest(**changes):
        template = found(**changes)["Deployment"]["spec"]["template"]
        return template["metadata"]["annotations"]["modelflow/settings"]

    settings = {"MODELFLOW_SET": "infer.batch_size=16"}
    assert found(settings=settings)["ConfigMap"]["data"] == {
        "MODELFLOW_SERVE_DRAIN_TIMEOUT": "30",
        **settings,
    }
    (container,) = pod()["containers"]
    assert container["envFrom"] == [
        {"configMapRef": {"name": "image-classify"}},
        {"secretRef": {"name": "image-classify", "optional": True}},
    ]
    assert digest(settings=settings) != digest()


def test_only_the_ports_that_are_served_are_reached():
    (rule,) = found(grpc_port=None)["NetworkPolicy"]["spec"]["ingress"]
    assert rule == {"ports": [{"port": 8501, "protocol": "TCP"}]}
    assert found(grpc_port=None)["Service"]["spec"]["type"] == "ClusterIP"


def test_the_folder_for_temporary_files_has_a_limit():
    (volume,) = pod()["volumes"]
    assert volume == {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}
