"""The chart, rendered and judged by Helm's own code."""

import pytest
import yaml

from modelflow.deploy.targets import TARGETS
from tests.deploy.applications import application

helm = pytest.importorskip("helm_python", reason="needs helm-python-sdk")


@pytest.fixture
def written(tmp_path):
    def write(**changes):
        for path, text in TARGETS["helm"].files(application(**changes)).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path / "chart"

    return write


def rendered(chart, values=None, name="image-classify"):
    """Returns the objects of a chart, by file."""
    with helm.Chart.load(str(chart)) as loaded:
        found = loaded.render(values or {}, name=name, namespace="here")
    texts = {path.rpartition("/")[2]: yaml.safe_load(text) for path, text in found.items()}
    return {file: text for file, text in texts.items() if text is not None}


@pytest.mark.parametrize(
    "changes",
    [{}, {"gpus": 1}, {"replicas": (3, 3)}, {"settings": {"A": "true", "B": "<1e6>"}, "drain": 90}],
)
def test_a_chart_gives_with_its_own_values_what_the_manifests_are(changes, written):
    files = TARGETS["kubernetes"].files(application(**changes))
    manifests = {
        path.rpartition("/")[2]: yaml.safe_load(text)
        for path, text in files.items()
        if path.startswith("kubernetes/")
    }
    assert rendered(written(**changes)) == manifests


def test_helm_finds_no_fault_with_the_chart(written):
    found = helm.lint(str(written()))
    assert found["errors"] == []
    # severity 1 is a hint
    assert [each for each in found["messages"] if each["severity"] > 1] == []


def test_values_of_ones_own_reach_the_objects(written):
    values = {
        "image": "registry/mine:2",
        "replicas": 1_000_000,
        "autoscaling": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "settings": {"MODELFLOW_SERVE_DRAIN_TIMEOUT": "600", "MODELFLOW_SERVE_MAX_REQUESTS": "9"},
        "nodeSelector": {"pool": "gpu"},
    }
    found = rendered(written(), values, name="other")
    spec = found["deployment.yaml"]["spec"]
    pod = spec["template"]["spec"]
    assert "autoscaler.yaml" not in found
    assert "networkpolicy.yaml" not in found
    assert found["service.yaml"]["metadata"]["name"] == "other"
    assert spec["replicas"] == 1_000_000
    assert pod["containers"][0]["image"] == "registry/mine:2"
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert pod["terminationGracePeriodSeconds"] == 608
    assert found["configmap.yaml"]["data"]["MODELFLOW_SERVE_MAX_REQUESTS"] == "9"


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 3},
        {"autoscaling": {"max": 3}},
        {"settings": {"MODELFLOW_SERVE_DRAIN_TIMEOUT": "a while"}},
        {"settings": {"MODELFLOW_SERVE_MAX_REQUESTS": 9}},
        {"imagePullPolicy": "Sometimes"},
    ],
)
def test_values_that_mean_nothing_are_refused(values, written):
    with helm.Chart.load(str(written())) as chart:
        chart.validate_schema({})
        with pytest.raises(helm.HelmError):
            chart.validate_schema(values)
