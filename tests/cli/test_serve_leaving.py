"""``modelflow serve --drain-delay``: who asks whether it is ready sees its end before it comes."""

import contextlib
import http.client
import signal

import pytest

from tests.served import ask, serving

LONG = "600"  # seconds, which no test waits for


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "up.toml").write_text(
        "[graph]\ngraphconf = '''digraph up {\n  input [type=input]\n"
        "  up [flowunit=\"units:up\"]\n  output [type=output]\n  input -> up -> output\n}'''\n"
    )
    (tmp_path / "units.py").write_text(
        "import modelflow\n\n\n@modelflow.flowunit\ndef up(value):\n    return value + 1\n"
    )
    return tmp_path


def connected(address):
    return contextlib.closing(
        http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    )


def is_ready(connection):
    connection.request("GET", "/v2/health/ready")
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


@pytest.mark.parametrize("many", [(), ("--workers", "2"), ("--replicas", "2")])
def test_one_that_leaves_is_not_ready_and_answers_until_it_ends(folder, many):
    words = ("up.toml", *many, "--drain-delay", LONG)
    with serving(folder, *words) as (process, address), connected(address) as asking:
        assert is_ready(asking)
        process.send_signal(signal.SIGTERM)
        while is_ready(asking):
            pass
        assert ask(address, "up", 1) == 2, "a new connection is not answered"
        assert not is_ready(asking), "an old connection is not answered"
        process.send_signal(signal.SIGINT)  # it waits no longer
        assert process.wait(60) in (130, 143)


def test_it_ends_by_itself_behind_the_delay(folder):
    with serving(folder, "up.toml", "--drain-delay", "0.1") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_it_ends_by_itself_behind_the_delay_with_all_its_processes(folder):
    words = ("up.toml", "--replicas", "2", "--drain-delay", "0.1")
    with serving(folder, *words) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
