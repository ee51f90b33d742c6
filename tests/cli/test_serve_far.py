"""``modelflow serve --on processes``: what graphs place runs there, and the rest here."""

import contextlib
import os
import signal
import sys
import threading
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from modelflow.cli.main import cli
from tests import programs
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


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "far.toml").write_text(GRAPH)
    (tmp_path / "here.toml").write_text(HERE)
    return tmp_path


def refused(folder, *words):
    done = programs.run([sys.executable, "-m", "modelflow", "serve", *words], cwd=folder)
    assert done.returncode == 2, done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_what_a_graph_places_runs_elsewhere_and_a_graph_beside_it_here(folder):
    with serving(folder, "far.toml", "here.toml", *ON) as (process, address):
        assert ask(address, "here") == process.pid
        assert ask(address, "far") != process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_without_it_everything_runs_here(folder):
    with serving(folder, "far.toml") as (process, address):
        assert ask(address, "far") == process.pid


def test_it_comes_from_the_environment_as_every_option_does(folder):
    with serving(folder, "far.toml", env={"MODELFLOW_SERVE_ON": "processes"}) as (process, address):
        assert ask(address, "far") != process.pid


def test_a_node_is_placed_by_an_override_as_well(folder):
    words = ("here.toml", "--set", "work.placement=apart", *ON)
    with serving(folder, *words) as (process, address):
        assert ask(address, "here") != process.pid


def test_a_graph_of_a_repository_that_is_read_again_has_replicas_of_its_own(folder):
    models = folder / "models"
    (models / "far").mkdir(parents=True)
    (models / "far" / "1").mkdir()
    (models / "far" / "1" / "graph.toml").write_text(GRAPH)
    with serving(folder, "models", *ON, "--allow-repository") as (_, address):
        before = ask(address, "far")
        url = f"{address}/v2/repository/models/far/load"
        urllib.request.urlopen(url, b"{}", timeout=60).close()
        assert ask(address, "far") != before
        with pytest.raises(ProcessLookupError):  # the old one has ended, with its last request
            while True:
                os.kill(before, 0)


def test_an_archive_is_served_with_what_it_places_elsewhere(folder):
    command = [sys.executable, "-m", "modelflow", "pack", "far.toml", "-o", "app.mfz"]
    programs.run(command, cwd=folder, check=True)
    (folder / "units.py").unlink()
    with serving(folder, "app.mfz", *ON) as (process, address):
        assert ask(address, "app") != process.pid


@pytest.mark.parametrize("many", [("--workers", "2"), ("--replicas", "2")])
def test_several_processes_have_what_is_placed_elsewhere(folder, many):
    with serving(folder, "far.toml", "here.toml", *many, *ON) as (process, address):
        here, far = ask(address, "here"), ask(address, "far")
        assert len({process.pid, here, far}) == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_a_request_that_is_worked_on_elsewhere_is_answered_before_the_end(folder):
    (folder / "far.toml").write_text(GRAPH.replace("units:process", "units:held"))
    os.mkfifo(folder / "pipe")
    found = []
    with serving(folder, "far.toml", *ON) as (process, address):
        asking = threading.Thread(target=lambda: found.append(ask(address, "far")))
        asking.start()
        with (folder / "pipe").open("w"):  # the unit is at it
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(OSError):  # until it takes nothing more
                while True:
                    urllib.request.urlopen(f"{address}/livez", timeout=60).close()
        asking.join(60)
        assert process.wait(60) == 143
    assert found
    assert found[0] != process.pid


def test_a_ctrl_c_ends_it_and_its_replicas_at_once(folder):
    with serving(folder, "far.toml", *ON) as (process, address):
        far = ask(address, "far")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        with pytest.raises(ProcessLookupError):
            os.kill(far, 0)


def test_a_replica_that_cannot_begin_is_told_as_what_does_not_load(folder):
    (folder / "far.toml").write_text(GRAPH.replace("units:process", "units:Broken"))
    command = [sys.executable, "-m", "modelflow", "serve", "far.toml", *ON, "--http", "127.0.0.1:0"]
    done = programs.run([*command, "--grpc", "off"], cwd=folder)
    assert done.returncode == 1
    assert "placement 'apart': no replica: " in done.stderr
    assert "no such weights" in done.stderr


def counted(replica, figures):
    """The lines that say how many rows a replica has worked on."""
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
        assert (caught.value.code, caught.value.headers["retry-after"]) == (503, "1")
        assert b"node 'work': nothing is there to work on it; come again" in caught.value.read()
        figures = urllib.request.urlopen(f"{address}/metrics").read().decode()
        assert 'node="work",replica="",unit="remote",version="1"} 1.0' in next(
            line for line in figures.splitlines() if "lost_replicas_total{" in line
        )
        (far,) = counted("gone", figures)
        assert far.endswith(" 1.0")
        process.send_signal(signal.SIGTERM)


def test_what_clients_will_see_is_printed_of_a_graph_that_places_nodes(folder):
    command = [sys.executable, "-m", "modelflow", "serve", "far.toml", *ON, "--describe"]
    assert "far" in programs.run(command, cwd=folder, check=True).stdout


# -- what is refused ------------------------------------------------------------------------------


def test_it_is_refused_where_no_graph_places_a_node(folder):
    expected = (
        "Error: --on processes: got no graph that places a node (models: here; placements that "
        "they declare: apart); expected a node with placement=NAME, as declared in "
        "[placement.NAME]"
    )
    assert refused(folder, "here.toml", *ON) == expected
    assert refused(folder, "here.toml", *ON, "--replicas", "2") == expected


def test_a_graph_that_is_wrong_is_told_as_what_it_is(folder):
    (folder / "here.toml").write_text("[graph]\ngraphconf = 'digraph {'\n")
    command = [sys.executable, "-m", "modelflow", "serve", "here.toml", *ON]
    done = programs.run([*command, "--http", "127.0.0.1:0", "--grpc", "off"], cwd=folder)
    assert done.returncode == 1
    assert "here.toml:2" in done.stderr
    assert "--on" not in done.stderr


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
def test_options_that_mean_nothing_are_told_with_what_does(folder, words, told):
    done = CliRunner().invoke(cli, ["serve", str(folder / "far.toml"), *words])
    assert done.exit_code == 2
    assert done.output.strip().splitlines()[-1] == f"Error: {told}"
