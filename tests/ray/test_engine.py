"""Tests of remote nodes on a cluster: kills, losses and refusals cost as few rows as possible."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow import Flow
from modelflow.cli.main import cli
from modelflow.config.placement import PlacementConfig
from modelflow.config.read import read_text_config
from modelflow.errors import ConfigError, FlowFailed, FlowUnitError
from modelflow.graph.read import read_graph
from modelflow.plan.partition import find_partitions
from modelflow.remote import place_nodes
from modelflow.remote.part import Part, part_of
from modelflow.remote.ray import RayEngine, connect
from modelflow.remote.ray.client import ActorGoneError, ClusterError
from modelflow.remote.ray.engine import _digest
from tests import programs as commands
from tests.example_counts import of_a_hundred
from tests.in_process import run_here
from tests.properties.programs import programs, sessions
from tests.properties.test_random_graphs import any_graph
from tests.properties.test_random_placements import run_far
from tests.ray.conftest import add
from tests.remote import units
from tests.remote.local_replica import figures_of
from tests.serve.processes.server_processes import wait_until_ended

GRAPH = """
[placement.far]
replicas = "{replicas}"
resources = {{ {resources} }}
timeout_ms = {timeout}
start_timeout_ms = 60_000

[graph]
graphconf = '''digraph {{
    input [type=input]
    work [flowunit="tests.remote.units:risky", placement=far]
    output [type=output]
    input -> work -> output
}}'''
"""


PART = Part(
    "part",
    read_text_config(
        """digraph {
            input [type=input]
            work [flowunit="tests.remote.units:risky"]
            output [type=output]
            input -> work -> output
        }""",
        "dot",
        Path("part.dot"),
    ),
)


def text_of(*, replicas="1", resources="far=1", timeout=60_000):
    return GRAPH.format(replicas=replicas, resources=resources, timeout=timeout)


def process_of(engine, place=0):
    """Returns the id of a replica's process, and its machine."""
    (pool,) = engine._pools
    slot = list(pool._slots.values())[place]
    return number_of(slot.replica)


def number_of(replica):
    """Returns the id of a replica's process."""
    return replica._actor.call("figures", timeout=60)["process"]


def test_rows_come_back_in_order_from_an_actor_and_a_late_one_reaches_no_unit_there(cluster):
    engine = RayEngine(cluster)
    with Flow(place_nodes(text_of(), engine)) as flow:
        assert process_of(engine) != os.getpid()
        found = [answer.data for _, answer in flow.map(range(200))]
        with pytest.raises(TimeoutError):
            flow.infer(1, deadline=0.0)
        assert flow.infer(2).data == 4
        (actor,) = cluster.actors()
    assert found == [2 * value for value in range(200)]
    assert (actor.label, actor.rows) == ("work", {"work": 201})
    assert figures_of(engine)["far"].calls < 200, "rows cross one by one"
    assert cluster.actors() == []


def test_what_stands_behind_a_far_node_is_in_its_figures_and_its_units_are_closed(
    cluster, tmp_path
):
    notes = tmp_path / "notes"
    graph = (
        text_of()
        .replace(":risky", ":closing")
        .replace(", placement", f', notes="{notes}", placement')
    )
    with Flow(place_nodes(graph, RayEngine(cluster))) as flow:
        assert len([*flow.map(range(50))]) == 50
        ((name, nodes),) = flow.stats()["work"].replicas.items()
        assert name.startswith(f"{os.uname().nodename}/")
        assert nodes["work"].buffers == 50
        assert not notes.exists()
    assert notes.read_text() == "1\n"
    assert flow.stats()["work"].inside["work"].buffers == 50


def test_large_arrays_cross(cluster):
    text = """
    [placement.far]
    resources = { far = 1 }
    [graph]
    graphconf = '''digraph {
        input [type=input]
        mean [flowunit=mean, mean="1,2,3", placement=far]
        output [type=output]
        input -> mean -> output
    }'''
    """
    image = np.random.default_rng(0).integers(0, 255, (224, 224, 3), np.uint8)
    with Flow(text) as flow:
        here = flow.infer(image)
    with Flow(place_nodes(text, RayEngine(cluster))) as flow:
        found = [answer for _, answer in flow.map([image] * 40)]
    for there in found:
        np.testing.assert_array_equal(there.data, here.data)
        assert there.meta == here.meta


def test_a_killed_actor_costs_no_row(cluster, caplog):
    engine = RayEngine(cluster)
    with Flow(place_nodes(text_of(), engine)) as flow:
        found = []
        for _, answer in flow.map(range(600), in_flight=64):
            found.append(answer.data)
            if len(found) == 200:
                os.kill(process_of(engine), signal.SIGKILL)
    assert found == [2 * value for value in range(600)]
    assert figures_of(engine)["far"].lost == 1
    (told,) = (one for one in caplog.messages if "lost replica" in one)
    assert "placement 'far': lost replica 0: actor " in told
    assert "its worker process has died" in told


def test_of_an_actor_that_is_killed_no_process_is_left(cluster):
    replica = RayEngine(cluster).replica(PlacementConfig("far", resources={"far": 1}), [PART], 0)
    replica.start(60.0)
    process = number_of(replica)
    replica.kill()
    wait_until_ended([process])
    replica.close()


def test_a_lost_machine_costs_no_row_where_another_one_is_left(machines, cluster):
    lost = add(machines, "127.0.0.5", fresh=1)
    kept = add(machines, "127.0.0.6", fresh=1)
    engine = RayEngine(cluster)
    text = text_of(replicas="2", resources="fresh=1", timeout=20_000)
    graph = place_nodes(text, engine)
    flow = Flow(graph).start()
    processes = [process_of(engine, place) for place in (0, 1)]
    try:
        found = []
        for _, answer in flow.map(range(600), in_flight=64, errors="return"):
            found.append(answer)
            if len(found) == 200:
                machines.remove_node(lost, allow_graceful=False)
        assert [answer.data for answer in found] == [2 * value for value in range(600)]
    finally:
        flow.stop()
        machines.remove_node(kept)
    wait_until_ended(processes)


@pytest.fixture
def soon_alone(monkeypatch):
    """Makes shared actors end soon after their last user."""
    monkeypatch.setattr("modelflow.remote.ray.engine._ALONE", 0.5)


def see_none(cluster):
    """Waits until no actor is left."""
    while cluster.actors():
        pass


def test_engines_of_one_name_share_the_actors_which_end_when_none_is_left(cluster, soon_alone):
    one, other = RayEngine(cluster, "shared"), RayEngine(cluster, "shared")
    with Flow(place_nodes(text_of(), one)) as first:
        with Flow(place_nodes(text_of(), other)) as second:
            assert process_of(one) == process_of(other)
            assert first.infer(1).data == second.infer(1).data == 2
            (actor,) = cluster.actors()
            assert actor.rows == {"work": 2}
        assert first.infer(1).data == 2
    see_none(cluster)


def test_the_actors_outlive_the_engine_that_made_them(cluster, soon_alone):
    maker = Flow(place_nodes(text_of(), RayEngine(cluster, "shared"))).start()
    engine = RayEngine(cluster, "shared")
    with Flow(place_nodes(text_of(), engine)) as flow:
        process = process_of(engine)
        maker.stop(drain=False)
        assert flow.infer(1).data == 2
        assert process_of(engine) == process
        assert figures_of(engine)["far"].lost == 0
    see_none(cluster)


def test_a_shared_actor_that_has_just_ended_is_made_anew(cluster, soon_alone):
    with Flow(place_nodes(text_of(), RayEngine(cluster, "shared"))) as flow:
        assert flow.infer(1).data == 2
    for _ in range(3):  # at any moment
        with Flow(place_nodes(text_of(), RayEngine(cluster, "shared"))) as flow:
            assert flow.infer(1).data == 2
    see_none(cluster)


def made(cluster, **resources):
    """Returns a replica of a shared engine whose actor was made but not opened."""
    placement = PlacementConfig("far", resources=resources)
    replica = RayEngine(cluster, "shared").replica(placement, [PART], 0)
    replica._actor = replica._make_actor()
    return replica


def see_end_of(replica):
    with pytest.raises(ActorGoneError):
        while True:
            number_of(replica)


def test_a_shared_actor_that_its_maker_never_opens_ends_by_itself(cluster, soon_alone):
    see_end_of(made(cluster, far=1))


def test_a_maker_that_gives_up_leaves_the_actor_to_others_once_it_has_a_machine(
    cluster, soon_alone
):
    maker = made(cluster, far=1)
    other = RayEngine(cluster, "shared").replica(maker._placement, [PART], 0)
    process = number_of(maker)
    other.start(60.0)
    maker.kill()
    assert other._actor.call("figures")["rows"] == {"work": 0}
    assert number_of(other) == process
    other.close()
    see_end_of(other)

    waiting = made(cluster, nowhere=1)
    waiting.kill()
    see_end_of(waiting)


def test_who_finds_an_actor_that_is_about_to_end_has_another_one(cluster, soon_alone, monkeypatch):
    maker = made(cluster, far=1)
    process = number_of(maker)
    other = RayEngine(cluster, "shared").replica(maker._placement, [PART], 0)
    found, ended = other._find_actor, []

    def find(seconds):
        actor = found(seconds)
        if not ended:  # between the lookup and the request
            ended.append(actor.call("figures")["process"])
            actor.kill()
        return actor

    monkeypatch.setattr(other, "_find_actor", find)
    other.start(60.0)
    assert number_of(other) != process
    assert ended == [process]
    other.close()
    see_end_of(other)


def test_who_connects_too_late_to_an_actor_of_its_own_has_another_one(
    cluster, soon_alone, monkeypatch
):
    maker = RayEngine(cluster, "shared").replica(PlacementConfig("far"), [PART], 0)
    connect_all, ended = maker._channels_to, []

    def connect_late(door):
        if not ended:  # as if no user connects within `_ALONE` seconds
            maker._actor.kill()
            ended.append(door.process)
            wait_until_ended([door.process])  # Ray reports the death a little earlier
        return connect_all(door)

    monkeypatch.setattr(maker, "_channels_to", connect_late)
    maker.start(60.0)
    assert [number_of(maker)] != ended
    maker.close()
    see_end_of(maker)


def test_shared_actors_are_those_of_the_same_graph_wherever_its_archive_lies(tmp_path):
    text = text_of().replace('"tests.remote.units:risky"', 'mean, mean="1,2,3"')

    def digest(folder, text, **changes):
        path = tmp_path / folder
        path.mkdir()
        (path / "g.toml").write_text(text)
        words = ["pack", str(path / "g.toml"), "-o", str(path / "g.mfz")]
        assert CliRunner().invoke(cli, words).exit_code == 0
        graph = read_graph(path / "g.mfz", check_devices=False)
        (cut,) = find_partitions(graph)
        part = part_of(cut, ())
        return _digest(replace(cut.placement, **changes), [part], path / "g.mfz")

    here = digest("here", text)
    assert digest("there", text) == here
    assert digest("other", text.replace("far=1", "far=2")) != here
    assert digest("more", text, in_flight=7) != here


def test_actors_of_one_name_run_what_they_are_asked_for(cluster, soon_alone):
    other = text_of().replace("units:risky", "units:odd")
    one, another = RayEngine(cluster, "shared"), RayEngine(cluster, "shared")
    with Flow(place_nodes(text_of(), one)) as first, Flow(place_nodes(other, another)) as second:
        assert (first.infer(3).data, second.infer(3).data) == (6, 3)
    see_none(cluster)
    engine = RayEngine(cluster)
    with Flow(place_nodes(text_of(), engine)) as first, Flow(place_nodes(other, engine)) as second:
        assert (first.infer(3).data, second.infer(3).data) == (6, 3)


def test_only_the_row_that_cannot_be_sent_or_read_is_in_error_and_no_actor_is_lost(cluster):
    engine = RayEngine(cluster)
    text = text_of().replace("units:risky", "units:odd")
    odd = [units.Unsendable(), "unsendable", "unreadable"]
    with Flow(place_nodes(text, engine)) as flow:
        found = [answer for _, answer in flow.map([1, *odd, 2], errors="return")]
        assert figures_of(engine)["far"].lost == 0
    assert [found[0].data, found[-1].data] == [1, 2]
    assert all(isinstance(error, FlowUnitError) for error in found[1:-1])
    assert "a row cannot be sent to another process: ValueError: holds a" in str(found[1])


def test_arrays_inside_others_are_ours_to_write(cluster):
    text = text_of().replace("units:risky", "units:odd")
    with Flow(place_nodes(text, RayEngine(cluster))) as flow:
        found = flow.infer({"pixels": [np.zeros(200_000, np.uint8)]}).data
    found["pixels"][0][:] = 1


def test_what_no_machine_has_is_named(cluster, monkeypatch):
    monkeypatch.setattr("modelflow.remote.ray.engine._PATIENCE", 0.0)
    with pytest.raises(FlowFailed) as caught:
        Flow(place_nodes(text_of(resources="CPU=64, tpu=1"), RayEngine(cluster))).start()
    text = str(caught.value)
    assert "it needs CPU=64, tpu=1 on one machine, and none has that" in text
    assert "127.0.0.3 (CPU=2, far=2" in text


def test_what_is_taken_is_named_behind_the_time_out(cluster):
    text = text_of(replicas="2", resources="far=2").replace("60_000", "3000")
    text = text.replace('"2"', '"3"')
    with pytest.raises(FlowFailed) as caught:
        Flow(place_nodes(text, RayEngine(cluster))).start()
    assert "it needs far=2, and was not ready within 3 s" in str(caught.value)
    assert cluster.actors() == []


@pytest.mark.timeout(3000)
@settings(parent=any_graph, max_examples=of_a_hundred(5))
@given(programs(), sessions, st.data())
def test_any_legal_placement_on_a_cluster_gives_what_one_machine_gives(
    cluster, program, rows, data
):
    run_far(program, rows, data, RayEngine(cluster))


# -- the command line -----------------------------------------------------------------------------


def test_no_cluster_is_begun_in_silence(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match=r"no cluster is named; give --address"), connect():
        pass


def test_a_cluster_that_is_not_there_is_told_at_once():
    with pytest.raises(ClusterError, match="cannot be reached"), connect("127.0.0.1:1"):
        pass


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("foo", r"got 'foo'; expected HOST:PORT, ray://HOST:PORT or 'auto'"),
        ("autto", r"got 'autto'; did you mean 'auto'\?; expected"),
        ("127.0.0.1:99999", r"got '127.0.0.1:99999'; expected HOST:PORT"),
    ],
)
def test_an_address_that_is_none_is_told(address, said):
    with pytest.raises(ConfigError, match=said), connect(address):
        pass


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--address", "autto"], "got 'autto'; did you mean 'auto'?; expected HOST:PORT"),
        (["--address", "local"], "--address local would begin a cluster"),
        ([], "no cluster is named; give --address HOST:PORT, or set RAY_ADDRESS"),
    ],
)
def test_commands_take_an_address_that_is_none_as_a_wrong_use_of_theirs(words, said, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    done = CliRunner().invoke(cli, ["ray", "status", *words])
    assert done.exit_code == 2
    assert said in done.output


def test_how_many_run_is_looked_at_before_anything_else(tmp_path):
    graph = tmp_path / "graph.toml"
    graph.write_text(text_of())
    command = ["ray", "run", str(graph), "--address", "127.0.0.1:1", "--replicas", "8..2"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 2
    assert (
        "--replicas: got '8..2'; expected a number from 1 to 10000, or a minimum and" in done.output
    )


def test_nothing_but_results_is_on_standard_output_when_an_actor_ends(machines, cluster, tmp_path):
    (tmp_path / "deadly.py").write_text(
        "import os\n\nimport modelflow\n\n\n@modelflow.flowunit\ndef deadly(data):\n"
        "    if bytes(data) == b'1':\n        os._exit(3)\n    return bytes(data).decode()\n"
    )
    graph = tmp_path / "graph.toml"
    graph.write_text(text_of().replace("tests.remote.units:risky", "deadly:deadly"))
    for number in range(3):
        (tmp_path / f"{number}.bin").write_text(str(number))
    command = ["ray", "run", str(graph), "--address", machines.address, "--replicas", "3"]
    words = [sys.executable, "-m", "modelflow", *command, "--input", str(tmp_path / "*.bin")]
    done = commands.run(words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    lines = list(map(json.loads, done.stdout.splitlines()))
    assert [line.get("data") for line in lines] == ["0", None, "2"]
    assert "its replica was lost 3 times" in lines[1]["error"]["message"]
    assert (
        "note: --replicas does nothing: the graph places nodes, as [placement] says" in done.stderr
    )


def test_a_packed_graph_runs_on_a_cluster_and_goes_on_where_it_was(
    machines, cluster, tmp_path, monkeypatch
):
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "units.py").write_text(
        "import modelflow\n\n\n@modelflow.flowunit\ndef size(data):\n    return len(data)\n"
    )
    (folder / "graph.toml").write_text(
        "[graph]\ngraphconf = '''digraph {\n  input [type=input]\n"
        '  size [flowunit="units:size"]\n  output [type=output]\n'
        "  input -> size -> output\n}'''\n"
    )
    for number in range(1, 31):
        (tmp_path / f"{number:02}.bin").write_bytes(b"x" * number)
    monkeypatch.chdir(folder)
    run_here(("pack", "graph.toml", "-o", "../app.mfz"), env={}, check=True)
    (folder / "units.py").unlink()
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out.jsonl"
    command = ["ray", "run", "app.mfz", "--address", machines.address, "--output", str(out)]
    command += ["--resume", str(tmp_path / "done"), "--quiet"]
    for pattern in ("0*.bin", "*.bin"):
        run_here((*command, "--input", pattern), env={}, check=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(row["data"] for row in rows) == list(range(1, 31))


def test_a_plan_says_what_crosses_and_a_status_what_is_there(machines, cluster, tmp_path):
    graph = tmp_path / "graph.toml"
    graph.write_text(text_of())
    runner = CliRunner()
    planned = runner.invoke(cli, ["ray", "plan", str(graph)])
    assert planned.exit_code == 0, planned.output
    assert "far (1 replica): work" in planned.output
    with Flow(place_nodes(text_of(), RayEngine(cluster))):
        seen = runner.invoke(cli, ["ray", "status", "--address", machines.address])
    assert seen.exit_code == 0, seen.output
    assert "127.0.0.2 (CPU=2" in seen.output
    assert "work; rows: work: 0" in seen.output


def test_a_status_names_the_replicas_that_wait_for_room(machines, cluster):
    text = text_of(replicas="3", resources="far=2")  # and the resource is enough for two
    flow = Flow(place_nodes(text, RayEngine(cluster)))

    def start():
        with contextlib.suppress(FlowFailed):
            flow.start()

    starting = threading.Thread(target=start)
    starting.start()
    try:
        while sum(bool(actor.rows) for actor in cluster.actors()) < 2:
            pass
        seen = CliRunner().invoke(cli, ["ray", "status", "--address", machines.address])
        assert seen.output.count("work; rows") == 2
        assert seen.output.count("does not answer. It starts, waits for a machine") == 1
    finally:
        flow.stop(drain=False)
        starting.join()


def test_what_a_program_does_at_a_sigterm_is_its_own_when_it_has_connected(machines):
    program = """
import signal, sys
from modelflow.remote.ray import connect

def finish(number, frame): ...

signal.signal(signal.SIGTERM, finish)
with connect(sys.argv[1]):
    assert signal.getsignal(signal.SIGTERM) is finish, signal.getsignal(signal.SIGTERM)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, machines.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
