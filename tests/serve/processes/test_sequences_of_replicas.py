"""Tests of sequences of requests over several replicas: each sequence lives in a single replica."""

import contextlib
import itertools
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.serve.processes.server_processes import serving, wait_until

GRAPH = """
[graph]
format = "graphviz"
graphconf = '''digraph m {
    input [type=input]
    total [flowunit="units:Total"]
    output [type=output]
    input -> total -> output
}'''
[serve.input.input]
datatype = "INT64"
shape = [2]
[serve.output.output]
datatype = "INT64"
shape = [3]
"""
UNITS = """
import os
import time

import numpy as np

import modelflow


class Total(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Total",
        {"cpu": lambda: Total()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=modelflow.Stream(modelflow.Count.SAME),
    )

    def process(self, ctx):
        for buffer in ctx.input():
            value, wait = buffer.data
            if wait:
                open(f"waits.{os.getpid()}", "w").close()
                if wait == 1:
                    time.sleep(600)
                with open("gate") as gate:
                    gate.read()
            ctx.state["total"] = ctx.state.get("total", 0) + value
            ctx.state["count"] = ctx.state.get("count", 0) + 1
            ctx.emit([np.int64([ctx.state["total"], ctx.state["count"], os.getpid()])])
"""
STEPS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "m.toml").write_text(GRAPH)
    (folder / "units.py").write_text(UNITS)
    return folder


def send(replica_group, name, value, connection=None, wait=0, **flags):
    """Sends a step; returns total, count and process, or status and error."""
    tensor = {"name": "input", "datatype": "INT64", "shape": [1, 2], "data": [value, wait]}
    parameters = {"sequence_id": name, **{f"sequence_{key}": True for key in flags}}
    document = {"inputs": [tensor], "parameters": parameters}
    status, found = replica_group.ask("/v2/models/m/infer", document, connection=connection)
    return tuple(found["outputs"][0]["data"]) if status == 200 else (status, found["error"])


def _run(replica_group, flags, connection, numbers):
    """Sends a step of several sequences over one connection."""
    return [(n, send(replica_group, n + 1, n, connection, **flags)) for n in numbers]


@pytest.mark.parametrize("option", ["--replicas", "--workers"])
def test_interleaved_sequences_over_many_connections_keep_their_states(folder, option):
    count, width = 200, 50
    with serving(folder, "m.toml", option=option) as replica_group:
        wait_until(lambda: send(replica_group, "ready", 1, start=1, end=1)[0] == 1)
        with replica_group.connections(width) as connections:
            turns = itertools.cycle(range(width))
            homes: dict[int, set[int]] = {}
            for step in range(1, STEPS + 1):
                # each step of a sequence comes over another connection than the step before
                shares: list[list[int]] = [[] for _ in range(width)]
                next(turns)
                for number in range(count):
                    shares[next(turns)].append(number)
                flags = {"start": 1} if step == 1 else {"end": 1} if step == STEPS else {}

                run = partial(_run, replica_group, flags)
                with ThreadPoolExecutor(width) as pool:
                    for number, found in itertools.chain(*pool.map(run, connections, shares)):
                        assert found[:2] == (number * step, step)
                        homes.setdefault(number, set()).add(found[2])
        assert {len(found) for found in homes.values()} == {1}
        assert len(set.union(*homes.values())) == (2 if option == "--replicas" else 1)


def test_a_lost_replica_ends_its_sequences_and_no_others(folder):
    with serving(folder, "m.toml") as replica_group:
        wait_until(lambda: send(replica_group, "ready", 1, start=1, end=1)[0] == 1)
        names = range(1, 21)
        homes = {name: send(replica_group, name, 1, start=1)[2] for name in names}
        lost = homes[1]
        kept = [name for name in names if homes[name] != lost]
        with replica_group.connections(4) as connections, ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(send, replica_group, 1, 1, one, wait=1) for one in connections]
            wait_until(lambda: os.path.exists(folder / f"waits.{lost}"))
            replica_group.kill(lost)
            answers = []
            for one in asked:
                try:
                    answers.append(one.result())
                except OSError:  # the connection of the lost replica
                    answers.append(None)
        told = [answer for answer in answers if answer is not None]
        assert told
        for status, text in told:  # a request may also arrive after the loss
            assert status == 503
            assert re.search(
                "had the sequence, has ended, and the sequence with it; begin the|"
                "has the sequence, does not run now; try again, and begin the sequence",
                text,
            )
        for name in kept:
            assert send(replica_group, name, 1)[:2] == (2, 2)
        gone = next(name for name in names if homes[name] == lost)
        wait_until(lambda: send(replica_group, gone, 1)[0] == 400)
        assert "is not open; begin it with sequence_start" in send(replica_group, gone, 1)[1]
        assert send(replica_group, gone, 7, start=1)[:2] == (7, 1)


def _holder(replica_group, connection):
    """Returns the process that has the other end of a connection."""
    ours = connection.sock.getsockname()[1]
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {one.split()[9] for one in lines if one.split()[2].endswith(f":{ours:04X}")}
    for pid in replica_group.children():
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if str(descriptor.readlink())[8:-1] in inodes:
                    return pid
    return None


def test_a_server_that_ends_answers_the_requests_that_a_replica_has_forwarded(folder):
    os.mkfifo(folder / "gate")
    with serving(folder, "m.toml") as replica_group:
        wait_until(lambda: send(replica_group, "ready", 1, start=1, end=1)[0] == 1)
        with replica_group.connections(4) as connections, ThreadPoolExecutor(1) as pool:
            homes = {one: send(replica_group, "last", 1, one, start=1)[2] for one in connections}
            holders = {one: _holder(replica_group, one) for one in homes}
            far = next(one for one in homes if holders[one] != homes[one])
            asked = pool.submit(send, replica_group, "last", 1, far, wait=2)
            wait_until(lambda: os.path.exists(folder / f"waits.{homes[far]}"))
            replica_group.process.send_signal(signal.SIGTERM)
            idle = next(one for one in homes if holders[one] == homes[far])
            assert idle.sock.recv(1) == b""  # that replica has no request of a client left
            with open(folder / "gate", "w"):
                pass
            assert asked.result()[:2] == (2, 2)
        replica_group.end()
