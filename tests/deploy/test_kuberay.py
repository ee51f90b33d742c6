"""The objects of KubeRay, as far as the schemas of Kubernetes itself know them."""

import http.server
import shlex
import sys
import threading
from pathlib import Path

import pytest

from modelflow.cli.ray import ray_run
from modelflow.deploy.application import USER
from modelflow.deploy.kuberay import kuberay_objects
from modelflow.deploy.yaml_text import yaml_text
from tests import programs
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


def test_a_job_runs_on_the_cluster_that_is_there_by_a_command_that_exists(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # as Ray does for a job
    objects = found(replicas=(2, 6))
    spec = objects["run.yaml"]["spec"]
    name = objects["cluster.yaml"]["metadata"]["name"]
    assert spec["clusterSelector"] == {"ray.io/cluster": name}
    program, *words = shlex.split(spec["entrypoint"])
    assert program == "modelflow"
    # With the names of help as ever: a command keeps those of its first context.
    names = ["-h", "--help"]
    with ray_run.make_context("run", words[2:], help_option_names=names) as context:
        given = context.params
    assert (given["graph"], given["replicas"]) == ("/app/image_classify.mfz", "2..6")
    assert given["address"] == "10.0.0.1:6379"
    assert given["resume"] == Path("/data/out.done")


def test_the_operator_is_told_the_version_of_ray_where_it_is_known():
    assert found(ray="2.60.0")["cluster.yaml"]["spec"]["rayVersion"] == "2.60.0"
    assert "rayVersion" not in yaml_text(found()["cluster.yaml"])


def test_the_cluster_asks_for_a_token():
    assert found()["cluster.yaml"]["spec"]["authOptions"] == {"mode": "token"}


@pytest.mark.parametrize(("answer", "code"), [(b"success", 0), (b"failed", 1)])
def test_the_probes_need_nothing_but_python(answer, code):
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    head, worker = groups()
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, name="serves")
        thread.start()
        try:
            for group in (head, worker):
                (container,) = group["template"]["spec"]["containers"]
                for kind in ("readinessProbe", "livenessProbe"):
                    program, *words = container[kind]["exec"]["command"]
                    assert program == "python"
                    for port in (52365, 8265):
                        words[-1] = words[-1].replace(f":{port}/", f":{server.server_port}/")
                    assert programs.run([sys.executable, *words]).returncode == code
        finally:
            server.shutdown()
            thread.join()
    raylet, cluster = "/api/local_raylet_healthz", "/api/gcs_healthz"
    of_head = [raylet, cluster] if code == 0 else [raylet]
    assert asked == [*of_head, *of_head, raylet, raylet]
