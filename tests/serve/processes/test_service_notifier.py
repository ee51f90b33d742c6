"""Tests of the notifications to a service manager, over a real socket, by a server process."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest

from modelflow.serve.processes.service_notifier import ServiceNotifier
from tests import programs

GRAPH = """digraph m {
    input [type=input]
    wait [flowunit="units:Wait", threads=1]
    output [type=output]
    input -> wait -> output
}"""
# Its `process` reports its start by one pipe, and goes on after a write to another.
UNITS = """
import modelflow

@modelflow.flowunit
def Wait(row):
    with open("begun", "w"):
        pass
    with open("go") as pipe:
        pipe.read()
    return row
"""


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """Yields the socket of a service manager, and the environment that names the socket."""
    name = f"modelflow-test-{os.getpid()}"
    place = {"path": str(tmp_path / "notify"), "abstract": f"\0{name}"}[request.param]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.settimeout(programs.LIMIT)
        bound.bind(place)
        yield bound, {"NOTIFY_SOCKET": place.replace("\0", "@")}


def heard(bound):
    return bound.recv(4096).decode().splitlines()


def until(bound, line):
    """Returns the notifications up to a line, without the heartbeats."""
    told = []
    while line not in told:
        told += [said for said in heard(bound) if said != "WATCHDOG=1"]
    return told


@pytest.mark.parametrize("processes", [(), ("--replicas", "2")])
def test_a_server_says_when_it_serves_that_it_lives_and_that_it_ends(manager, processes, tmp_path):
    bound, environment = manager
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "m.dot").write_text(GRAPH)
    for pipe in ("begun", "go"):
        os.mkfifo(tmp_path / pipe)
    command = ["python", "-m", "modelflow", "serve", "m.dot", "--http", "127.0.0.1:0"]
    command += ["--grpc", "off", *processes]
    environment = {**os.environ, **environment, "WATCHDOG_USEC": "100000"}
    with programs.started(
        command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        ready, status = heard(bound)
        assert ready == "READY=1"
        assert status.startswith("STATUS=serves m at http://127.0.0.1:")
        assert [heard(bound), heard(bound)] == [["WATCHDOG=1"]] * 2
        answers = []
        asking = threading.Thread(target=lambda: answers.append(asked(status)), name="asks")
        asking.start()
        (tmp_path / "begun").open().close()  # a request is in progress
        process.send_signal(signal.SIGTERM)
        told = until(bound, "STOPPING=1")
        assert process.poll() is None
        (tmp_path / "go").open("w").close()
        asking.join()
        assert answers == [{"predictions": [1.0]}]
        assert process.wait(programs.LIMIT) == 143
        assert "READY=1" not in told


def asked(status):
    address = re.search(r"http://[\d.:]+", status)[0]
    url = f"{address}/v1/models/m:predict"
    with urllib.request.urlopen(url, json.dumps({"instances": [1.0]}).encode()) as answer:
        return json.load(answer)


def test_units_and_other_processes_do_not_speak_for_the_server(tmp_path):
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "1", "A": "b"}
    notifier = ServiceNotifier(environment)
    assert environment == {"A": "b"}
    assert notifier.interval is None  # the watchdog of process 1 does not apply to this process


def test_a_loop_that_hangs_is_not_said_to_live(manager):
    bound, environment = manager
    notifier = ServiceNotifier(
        {**environment, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    )

    async def live():
        notifier.beat()
        loop = asyncio.get_running_loop()
        for _ in range(3):
            assert await loop.run_in_executor(None, heard, bound) == ["WATCHDOG=1"]
        bound.settimeout(0.2)  # ten times the watchdog's limit
        with pytest.raises(TimeoutError):
            while True:  # on the loop's own thread
                heard(bound)

    asyncio.run(live())


def test_a_manager_that_is_slow_once_is_told_again_that_the_server_lives(manager, caplog):
    bound, environment = manager
    address = bound.getsockname()
    notifier = ServiceNotifier(
        {**environment, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    )
    filled = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"X=1", address)
                filled += 1

    async def live():
        loop = asyncio.get_running_loop()
        before = loop.time()
        notifier.beat()
        assert loop.time() - before < 0.5  # the loop is not blocked
        notifier.stopping()  # a notification that is sent once waits, but not for ever
        for _ in range(filled):
            assert heard(bound) == ["X=1"]
        assert await loop.run_in_executor(None, heard, bound) == ["WATCHDOG=1"]

    asyncio.run(live())
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "does not read; not sent: STOPPING=1" in record.getMessage()


@pytest.mark.parametrize("place", ["/nowhere/notify", "notify"])
def test_a_socket_that_is_not_there_is_said_once_and_does_not_stop_the_server(place, caplog):
    notifier = ServiceNotifier({"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "1000"})
    notifier.ready(["m"], "http://127.0.0.1:8501")
    notifier.beat()
    notifier.stopping()
    (record,) = caplog.records
    assert f"NOTIFY_SOCKET={place}: no report can be sent" in record.getMessage()


def test_without_a_service_manager_nothing_is_told(caplog):
    notifier = ServiceNotifier({})
    notifier.ready([], "http://127.0.0.1:8501")
    notifier.beat()
    notifier.stopping()
    assert not caplog.records
