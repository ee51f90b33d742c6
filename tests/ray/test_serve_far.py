"""Servers whose graphs place nodes on a cluster: alone, of one name, and under ``ray serve``."""

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests import programs
from tests.in_process import run_here
from tests.served import ask, serving

LONG = 60
MOST = 2000  # requests within which rows of two servers must have met
UNITS = """
import json
import os
import time

import modelflow


class Seen(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Seen",
        {"cpu": lambda: Seen()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def process(self, ctx):
        values = [int(row.data) for row in ctx.inputs["in"]]
        time.sleep(0.01)
        ctx.emit([json.dumps([os.getpid(), sorted(set(values))])] * len(values), "out")
"""
GRAPH = """
[placement.far]
resources = { RESOURCES }
start_timeout_ms = START
[graph]
graphconf = '''digraph far {
    input [type=input]
    work [flowunit="units:Seen", placement=far, batch_size=16, threads=1]
    output [type=output]
    input -> work -> output
}'''
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "far.toml").write_text(text_of())
    return tmp_path


def text_of(resources="far = 1", start=60_000):
    return GRAPH.replace("RESOURCES", resources).replace("START", str(start))


class Client(threading.Thread):
    """Sends its tag until any client has seen the expected tags in a batch."""

    def __init__(self, address, tag, is_seen, seen):
        super().__init__(name=f"client {tag}")
        self.address, self.tag, self.is_seen, self.seen = address, tag, is_seen, seen
        self.start()

    def run(self):
        for _ in range(MOST):
            process, tags = seen_by(self.address, self.tag)
            assert self.tag in tags
            self.seen.append((process, tuple(tags)))
            if len(tags) > 1:
                self.is_seen.set()
            if self.is_seen.is_set():
                return
            # Without this pause, the rows of one server might always arrive while the other's are
            # processed.
            time.sleep(random.uniform(0, 0.02))


def seen_by(address, tag=0):
    """Returns the process that handled a row, and the tags of its batch."""
    return json.loads(ask(address, "far", tag))


def tags_of(*addresses):
    """Returns the processes and tags of the batches that clients of several addresses saw."""
    seen = []
    is_seen = threading.Event()
    clients = [
        Client(address, tag, is_seen, seen)
        for tag, address in enumerate(addresses)
        for _ in range(3)
    ]
    for client in clients:
        client.join()
    return seen


def begun(cluster, before):
    """Returns the new actors; actors of earlier tests may still end."""
    names = {actor.name for actor in before}
    return [actor for actor in cluster.actors() if actor.name not in names]


def test_rows_of_two_servers_of_one_name_meet_in_a_batch(machines, cluster, folder):
    on = ("far.toml", "--on", machines.address, "--share", "both")
    before = cluster.actors()
    with serving(folder, *on) as (_, one), serving(folder, *on) as (_, other):
        seen = tags_of(one, other)
        (actor,) = begun(cluster, before)
    assert len({process for process, _ in seen}) == 1
    assert any(tags == (0, 1) for _, tags in seen), seen
    assert actor.rows == {"work": len(seen)}


def test_servers_that_are_told_no_name_share_nothing_and_processes_of_one_do(
    machines, cluster, folder
):
    on = ("far.toml", "--on", machines.address)
    before = cluster.actors()
    with serving(folder, *on) as (_, one), serving(folder, *on, "--replicas", "2") as (_, two):
        assert seen_by(one)[0] != seen_by(two)[0]
        assert len(begun(cluster, before)) == 2


def test_what_no_machine_has_is_told_as_what_does_not_load(machines, folder):
    (folder / "far.toml").write_text(text_of("tpu = 1", 1000))
    command = [sys.executable, "-m", "modelflow", "serve", "far.toml", "--on", machines.address]
    done = programs.run([*command, "--http", "127.0.0.1:0", "--grpc", "off"], cwd=folder)
    assert done.returncode == 1
    assert "placement 'far': no replica: it needs tpu=1 on one machine" in done.stderr


def test_a_cluster_that_is_not_there_is_told_before_anything_is_loaded(folder):
    command = [sys.executable, "-m", "modelflow", "serve", "far.toml", "--on", "127.0.0.1:1"]
    done = programs.run(command, cwd=folder)
    assert done.returncode == 1
    assert "the cluster at '127.0.0.1:1' cannot be reached" in done.stderr
    assert "listens" not in done.stderr


@contextlib.contextmanager
def ray_serving(folder, machines, *words):
    """Yields the process, and the addresses of its servers."""
    command = [sys.executable, "-m", "modelflow", "ray", "serve", *words, "--replicas", "2"]
    command += ["--address", machines.address, "--drain-delay", "0"]
    with programs.started(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        said, addresses = [], []
        while len(addresses) < 2:
            said.append(process.stderr.readline())
            assert said[-1], said
            if found := re.search(r"answers at (http://\S+)", said[-1]):
                addresses.append(found[1])
        yield addresses
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(LONG) == 143, rest


def test_servers_of_one_command_share_what_their_graphs_place(
    machines, cluster, folder, monkeypatch
):
    monkeypatch.chdir(folder)
    run_here(("pack", "far.toml", "-o", "far.mfz"), env={}, check=True)
    (folder / "units.py").unlink()
    before = cluster.actors()
    with ray_serving(folder, machines, "far.mfz") as addresses:
        seen = tags_of(*addresses)
        kinds = sorted(actor.label.split()[0] for actor in begun(cluster, before))
        assert kinds == ["serves", "serves", "work"]
    assert any(tags == (0, 1) for _, tags in seen), seen


def test_servers_have_what_is_placed_run_where_they_are_told(machines, cluster, folder):
    before = cluster.actors()
    with ray_serving(folder, machines, "far.toml", "--on", "processes") as addresses:
        processes = {seen_by(address)[0] for address in addresses}
        assert len(begun(cluster, before)) == 2, "not the servers alone"
    assert len(processes) == 2
