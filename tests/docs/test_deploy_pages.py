"""Tests of the files in the pages about systemd and Ray, as far as the tools here allow."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from modelflow.cli.ray.command import ray_run
from modelflow.deploy.application import USER
from tests import programs

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def _block(page, name):
    text = (PAGES / page).read_text()
    return re.search(rf"^```\w+\n# file: {re.escape(name)}\n(.*?)^```$", text, re.M | re.S)[1]


def _groups():
    spec = yaml.safe_load(_block("deploy_on_a_ray_cluster.md", "cluster.yaml"))["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs Debian's systemd")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    text = _block("deploy_with_systemd.md", "double.service")
    unit = tmp_path / "double.service"
    # systemd checks that the program exists.
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.M))
    done = programs.run(["systemd-analyze", "verify", "--man=no", unit])
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_pods_of_the_cluster_are_pods_and_none_runs_as_root():
    validate = pytest.importorskip("kubernetes_validate", reason="needs it").validate
    for group in _groups():
        pod = {"apiVersion": "v1", "kind": "Pod", **group["template"]}
        validate({**pod, "metadata": {"name": "x"}}, "1.37", strict=True)
        context = pod["spec"]["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, USER)


def test_probes_are_programs_of_python():
    for group in _groups():
        (container,) = group["template"]["spec"]["containers"]
        for kind in ("readinessProbe", "livenessProbe"):
            program, option, text = container[kind]["exec"]["command"]
            assert (program, option) == ("python", "-c")
            compile(text, kind, "exec")


def test_the_job_gives_a_command_that_exists(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # Ray sets the variable for a job
    spec = yaml.safe_load(_block("deploy_on_a_ray_cluster.md", "run.yaml"))["spec"]
    program, *words = shlex.split(spec["entrypoint"])
    assert (program, *words[:2]) == ("modelflow", "ray", "run")
    with ray_run.make_context("run", words[2:], help_option_names=["-h", "--help"]) as context:
        assert context.params["graph"] == "/app/double.mfz"
        assert context.params["resume"] == Path("/data/out.done")
