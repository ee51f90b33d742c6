"""How several processes begin and end, whoever of them runs the models."""

import signal

import pytest

from tests import programs
from tests.serve.processes.server_processes import (
    is_alive,
    lost_by_the_end,
    serving,
    wait_until_ended,
    write_graphs,
)

OPTIONS = ("--replicas", "--workers")
each_option = pytest.mark.parametrize("option", OPTIONS)


@each_option
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all(tmp_path, option, number, code):
    with serving(write_graphs(tmp_path), "m.dot", option=option) as replica_group:
        children = replica_group.children()
        assert replica_group.who() in children
        assert replica_group.end(number) == code
        assert not any(map(is_alive, children))
        assert not any("Traceback" in line for line in replica_group.said)
        assert sum(line == "stopped\n" for line in replica_group.said) == (number == signal.SIGINT)


@each_option
def test_all_end_with_their_supervisor_however_it_ends(tmp_path, option):
    with serving(write_graphs(tmp_path), "m.dot", option=option) as replica_group:
        children = replica_group.children()
        replica_group.process.kill()
        wait_until_ended(children)


@each_option
def test_no_request_is_lost_by_an_orderly_end_under_load(tmp_path, option):
    with serving(write_graphs(tmp_path, m="slow"), "m.dot", option=option) as replica_group:
        assert lost_by_the_end(replica_group) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nothing.toml",), 1),
        (("m.dot", "--label", "x"), 2),
        (("m.dot", "--api-key-file", "gone"), 1),
        (("m.dot", "--tls-cert", "gone.pem", "--tls-key", "gone.key"), 1),
        (("bad.dot",), 1),
        (("m.dot", "m=m.dot"), 2),
    ],
)
def test_what_cannot_begin_says_what_one_process_would_say(tmp_path, arguments, code):
    write_graphs(tmp_path, m="who", bad="nobody")
    command = ["python", "-m", "modelflow", "--log-level", "FATAL", "serve", *arguments]
    command += ["--http", "127.0.0.1:0", "--grpc", "off"]
    one = programs.run(command, cwd=tmp_path)
    assert one.returncode == code
    for option in OPTIONS:
        several = programs.run([*command, option, "3"], cwd=tmp_path)
        assert (several.returncode, several.stderr) == (one.returncode, one.stderr)
