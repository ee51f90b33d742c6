"""The unit of systemd."""

import re
import shutil

import pytest

from modelflow.deploy.systemd import service_unit
from tests import programs
from tests.deploy.applications import application


def settings(**changes):
    """The settings of a unit; of those that stand there several times, the last."""
    return dict(re.findall(r"^(\w+)=(.*)$", service_unit(application(**changes)), re.M))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs Debian's systemd")
@pytest.mark.parametrize(
    "changes", [{}, {"gpus": 1}, {"settings": {"MODELFLOW_A": 'a "b" \\ 100% $HOME'}}]
)
def test_systemd_finds_nothing_wrong(changes, tmp_path):
    unit = tmp_path / "image-classify.service"
    text = service_unit(application(**changes))
    # It looks whether there is such a program.
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.M))
    done = programs.run(["systemd-analyze", "verify", "--man=no", unit])
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("TimeoutStopSec=33", "TimeoutStopSecs=33"))
    assert "TimeoutStopSecs" in programs.run(["systemd-analyze", "verify", unit]).stderr


def test_it_says_how_it_is_and_is_killed_later_than_it_ends_by_itself():
    found = settings(drain=50)
    assert (found["Type"], found["NotifyAccess"]) == ("notify", "main")
    assert int(found["WatchdogSec"]) > 0
    assert int(found["TimeoutStopSec"]) == application(drain=50).graces.process
    assert found["SuccessExitStatus"] == "143"


def test_other_machines_do_not_reach_it_unless_told():
    text = service_unit(application(grpc_port=None))
    assert 'Environment="MODELFLOW_SERVE_HTTP=127.0.0.1:8501"' in text
    assert 'Environment="MODELFLOW_SERVE_GRPC=off"' in text


def test_it_may_do_no_more_than_it_needs_to():
    found = settings()
    assert found["DynamicUser"] == found["NoNewPrivileges"] == "yes"
    assert found["ProtectSystem"] == "strict"
    assert found["PrivateDevices"] == "yes"
    assert found["CapabilityBoundingSet"] == ""
    assert settings(gpus=1)["PrivateDevices"] == "no"


def test_what_systemd_would_read_otherwise_is_quoted():
    text = service_unit(application(settings={"A": 'say "50%" \\'}))
    assert 'Environment="A=say \\"50%%\\" \\\\"' in text
