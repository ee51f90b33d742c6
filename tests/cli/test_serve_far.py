"""Tests of ``modelflow serve --on processes``: placed nodes run in other processes."""

import contextlib
import http.client
import os
import signal
import threading
import urllib.error
import urllib.request

import pytest

from tests.in_process import run_here
from tests.served import ask, serving

UNITS = """
import os

import modelflow


@modelflow.flowunit
def process(value):
    return os.getpid()


@modelflow.flowunit
def held(value):
    with open("begun", "w") as begun:
        begun.write("x")
    with open("pipe") as pipe:
        pipe.read()
    return os.getpid()


class Broken(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Broken",
        {"cpu": lambda: Broken()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def open(self, config):
        raise ValueError("no such weights")


class Once(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Once",
        {"cpu": lambda: Once()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        is_shared=True,
    )

    def open(self, config):
        with open("opened", "x"):
            pass

    def process(self, ctx):
        ctx.emit([os.getpid()])
"""
GRAPH = """
[placement.apart]
[graph]
graphconf = '''digraph far {
    input [type=input]
    work [flowunit="units:process", placement=apart]
    output [type=output]
    input -> work -> output
}'''
"""
HERE = GRAPH.replace(", placement=apart", "")
ON = ("--on", "processes")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "far.toml").write_text(GRAPH)
    (tmp_path / "here.toml").write_text(HERE)
    return tmp_path


def said(*words):
    """Returns the status and the output of a command that serves nothing."""
    done = run_here(("serve", *words, "--http", "127.0.0.1:0", "--grpc", "off"), env={})
    return done.returncode, done.stderr


def test_what_a_graph_places_runs_elsewhere_and_a_graph_beside_it_here(folder):
    """Tests that requests in progress elsewhere are answered before the end."""
    (folder / "held.toml").write_text(GRAPH.replace("units:process", "units:held"))
    os.mkfifo(folder / "pipe")
    found = []
    graphs, env = ("far.toml", "here.toml", "held=held.toml"), {"MODELFLOW_SERVE_ON": "processes"}
    with serving(folder, *graphs, env=env) as (process, address):
        assert ask(address, "here") == process.pid
        assert ask(address, "far") != process.pid
        asking = threading.Thread(target=lambda: found.append(ask(address, "held")))
        asking.start()
        with (folder / "pipe").open("w"):  # the unit is in its call
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(OSError):  # until the server accepts nothing more
                while True:
                    urllib.request.urlopen(f"{address}/livez", timeout=60).close()
        asking.join(60)
        assert process.wait(60) == 143
    assert found
    assert found[0] != process.pid


def test_without_it_everything_runs_here(folder):
    with serving(folder, "far.toml") as (process, address):
        assert ask(address, "far") == process.pid


def test_a_node_is_placed_by_an_override_as_well_and_ends_at_once_with_a_ctrl_c(folder):
    words = ("here.toml", "--set", "work.placement=apart", *ON)
    with serving(folder, *words) as (process, address):
        far = ask(address, "here")
        assert far != process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        with pytest.raises(ProcessLookupError):
            os.kill(far, 0)


def test_graphs_of_a_repository_and_archives_have_replicas_of_their_own(folder):
    (folder / "app.toml").write_text(GRAPH.replace("units:", "packed:"))
    (folder / "units.py").rename(folder / "packed.py")
    run_here(("pack", "app.toml", "-o", "app.mfz"), env={}, check=True)
    (folder / "packed.py").rename(folder / "units.py")
    version = folder / "models" / "far" / "1"
    version.mkdir(parents=True)
    (version / "graph.toml").write_text(GRAPH)
    with serving(folder, "models", "app.mfz", *ON, "--allow-repository") as (process, address):
        before = ask(address, "far")
        url = f"{address}/v2/repository/models/far/load"
        urllib.request.urlopen(url, b"{}", timeout=60).close()
        assert ask(address, "far") != before
        with pytest.raises(ProcessLookupError):  # the old process has ended, with its last request
            while True:
                os.kill(before, 0)
        assert len({process.pid, ask(address, "far"), ask(address, "app")}) == 3


def is_ready(connection):
    connection.request("GET", "/v2/health/ready")
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


@pytest.mark.parametrize("many", [(), ("--workers", "2"), ("--replicas", "2")])
def test_one_that_leaves_is_not_ready_and_answers_until_it_ends(folder, many):
    """Tests that readiness ends first, and that no process waits out its delay."""
    words = ("far.toml", "here.toml", *many, *ON, "--drain-delay", "600")
    with serving(folder, *words) as (process, address):
        here, far = ask(address, "here"), ask(address, "far")
        assert len({process.pid, here, far}) == (3 if many else 2)
        client = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        with contextlib.closing(client) as asking:
            assert is_ready(asking)
            process.send_signal(signal.SIGTERM)
            while is_ready(asking):
                pass
            assert ask(address, "far"), "a new connection is not answered"
            assert not is_ready(asking), "an old connection is not answered"
            process.send_signal(signal.SIGINT)  # the server stops waiting
            assert process.wait(60) in (130, 143)


def test_a_replica_that_cannot_begin_is_told_as_what_does_not_load(folder):
    (folder / "far.toml").write_text(GRAPH.replace("units:process", "units:Broken"))
    code, told = said("far.toml", *ON)
    assert (code, "placement 'apart': no replica: " in told) == (1, True), told
    assert "no such weights" in told


def counted(replica, figures):
    """Returns the lines with the number of rows that a replica has processed."""
    begin = 'modelflow_node_buffers_total{model="far",node="work",'
    found = (line for line in figures.splitlines() if line.startswith(begin))
    return [line for line in found if f'replica="{replica}"' in line]


def test_where_no_replica_is_left_clients_are_told_to_come_again(folder):
    text = GRAPH.replace("units:process", "units:Once").replace("]", "]\ntimeout_ms = 200", 1)
    (folder / "far.toml").write_text(text)
    with serving(folder, "far.toml", *ON) as (process, address):
        process_there = ask(address, "far")
        figures = urllib.request.urlopen(f"{address}/metrics").read().decode()
        (there,) = counted(f"{os.uname().nodename}/{process_there}", figures)
        assert there.endswith(" 1.0")
        os.kill(process_there, signal.SIGKILL)
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(address, "far")
        with caught.value as answer:
            assert (answer.code, answer.headers["retry-after"]) == (503, "1")
            assert b"node 'work': no replica is available; try again" in answer.read()
        figures = urllib.request.urlopen(f"{address}/metrics").read().decode()
        assert 'node="work",replica="",unit="remote",version="1"} 1.0' in next(
            line for line in figures.splitlines() if "lost_replicas_total{" in line
        )
        (far,) = counted("gone", figures)
        assert far.endswith(" 1.0")
        process.send_signal(signal.SIGTERM)


def test_what_clients_will_see_is_printed_of_a_graph_that_places_nodes():
    done = run_here(("serve", "far.toml", *ON, "--describe"), env={}, check=True)
    assert "far" in done.stdout


# -- rejected options -----------------------------------------------------------------------------


def test_it_is_refused_where_no_graph_places_a_node():
    expected = (
        "Error: --on processes: got no graph that places a node (models: here; placements that "
        "they declare: apart); expected a node with placement=NAME, as declared in "
        "[placement.NAME]"
    )
    for many in ((), ("--replicas", "2")):
        code, told = said("here.toml", *ON, *many)
        assert (code, told.strip().splitlines()[-1]) == (2, expected)


def test_a_graph_that_is_wrong_is_told_as_what_it_is(folder):
    (folder / "here.toml").write_text("[graph]\ngraphconf = 'digraph {'\n")
    code, told = said("here.toml", *ON)
    assert (code, "here.toml:2" in told, "--on" in told) == (1, True, False), told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--on", "proceses"),
            "--on: got 'proceses'; did you mean 'processes'?; expected processes, auto, HOST:PORT "
            "or ray://HOST:PORT",
        ),
        (
            ("--share", "a"),
            "--share a: got no --on; expected --on with the address of a Ray cluster, whose actors "
            "servers can share",
        ),
        (
            ("--share", "a", *ON),
            "--share a: got --on processes; expected --on with the address of a Ray cluster, whose "
            "actors servers can share",
        ),
        (("--on", "auto", "--share", ""), "--share: got ''; expected a name"),
    ],
)
def test_options_that_mean_nothing_are_told_with_what_does(words, told):
    code, text = said("far.toml", *words)
    assert (code, text.strip().splitlines()[-1]) == (2, f"Error: {told}")
