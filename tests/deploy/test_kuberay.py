"""The objects of KubeRay, as far as the schemas of Kubernetes itself know them."""

import pytest

from modelflow.deploy.application import USER
from modelflow.deploy.kuberay import kuberay_objects
from tests.deploy.applications import application


def found(**changes):
    return {each.file: each.object for each in kuberay_objects(application(**changes))}


def groups(**changes):
    spec = found(**changes)["cluster.yaml"]["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_pods_of_a_cluster_are_pods(gpus):
    validate = pytest.importorskip("kubernetes_validate", reason="needs it").validate
    for group in groups(gpus=gpus):
        pod = {"apiVersion": "v1", "kind": "Pod", **group["template"]}
        validate({**pod, "metadata": {"name": "x"}}, "1.37", strict=True)
    validate(found()["service.yaml"], "1.37", strict=True)


def test_work_is_done_by_the_workers_alone():
    head, workers = groups(gpus=2, replicas=(2, 6))
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert "nvidia.com/gpu" not in limits(head)
    assert limits(workers)["nvidia.com/gpu"] == "2"
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (2, 2, 6)


def limits(group):
    (container,) = group["template"]["spec"]["containers"]
    return container["resources"]["limits"]


def test_no_pod_runs_as_root():
    for group in groups():
        context = group["template"]["spec"]["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, USER)


def test_jobs_run_on_the_cluster_that_is_there():
    objects = found(replicas=(2, 6))
    (name,) = {objects["cluster.yaml"]["metadata"]["name"]}
    for file in ("serve.yaml", "run.yaml"):
        assert objects[file]["spec"]["clusterSelector"] == {"ray.io/cluster": name}
    serve = objects["serve.yaml"]["spec"]["entrypoint"]
    assert serve == "modelflow ray serve /app/image_classify.mfz --replicas 2..6"
    assert objects["service.yaml"]["spec"]["selector"]["ray.io/cluster"] == name
