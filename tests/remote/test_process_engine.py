"""Tests of remote nodes in real processes: kills, hangs and refusals cost few rows."""

import os
import signal
import sys

import numpy as np
import pytest

from modelflow import Flow, flowunit
from modelflow.buffer import Buffer
from modelflow.config.placement import PlacementConfig
from modelflow.errors import (
    BadRequest,
    FlowFailed,
    FlowUnitError,
    PlanError,
    ReplicaLostError,
    StreamClosed,
)
from modelflow.remote import ProcessEngine, place_nodes
from modelflow.remote.replica import Inquiry
from modelflow.runtime.stats import GONE
from modelflow.stream_io.request import Request, submit
from tests.remote import units
from tests.remote.local_replica import figures_of

GRAPH = """
[placement.far]
replicas = "{replicas}"
timeout_ms = {timeout}
retries = {retries}

[graph]
graphconf = '''digraph {{
    input [type=input]
    work [flowunit="tests.remote.units:risky", placement=far, notes="{notes}"]
    output [type=output]
    input -> work -> output
}}'''
"""


def text_of(*, replicas="1", timeout=60_000, retries=2, notes=""):
    return GRAPH.format(replicas=replicas, timeout=timeout, retries=retries, notes=notes)


def processes_of(engine):
    """Returns the ids of the ready processes."""
    (pool,) = engine._pools
    return [slot.replica._process.pid for slot in pool._slots.values() if slot.is_ready]


def lines_of(path):
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_rows_come_back_in_order_from_a_process_of_their_own(tmp_path):
    notes = tmp_path / "notes"
    engine = ProcessEngine()
    with Flow(place_nodes(text_of(notes=notes), engine)) as flow:
        (process,) = processes_of(engine)
        assert process != os.getpid()
        found = [answer.data for _, answer in flow.map(range(100))]
        figures = figures_of(engine)["far"]
    assert found == [2 * value for value in range(100)]
    assert sorted(lines_of(notes)) == list(range(100))
    assert (figures.replicas, figures.rows, figures.lost) == (1, 100, 0)
    assert figures.calls < 100, "rows cross one by one"
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_arrays_and_meta_cross_as_they_are():
    text = """
    [placement.far]
    [graph]
    graphconf = '''digraph {
        input [type=input]
        mean [flowunit=mean, mean="1,2,3", placement=far]
        output [type=output]
        input -> mean -> output
    }'''
    """
    image = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    with Flow(text) as flow:
        here = flow.infer(image)
    with Flow(place_nodes(text, ProcessEngine())) as flow:
        there = flow.infer(image)
    np.testing.assert_array_equal(there.data, here.data)
    assert there.data.dtype == here.data.dtype
    assert there.meta == here.meta


def test_a_view_of_bytes_crosses_as_bytes_both_ways():
    graph = text_of().replace('risky"', 'tail"').replace(', notes=""', "")
    view = memoryview(b"a.b.c.d")[::2]
    with Flow(place_nodes(graph, ProcessEngine())) as flow:
        assert flow.infer(view).data == b"bcd"


def test_replicas_that_are_not_needed_any_more_end_without_a_word(caplog):
    before = set(os.listdir("/proc/self/fd"))
    with Flow(place_nodes(text_of(replicas="2"), ProcessEngine())) as flow:
        assert [answer.data for _, answer in flow.map([1, 2, 3])] == [2, 4, 6]
        flow.stats()
    assert caplog.messages == []
    assert set(os.listdir("/proc/self/fd")) == before


def test_an_error_names_the_node_inside_as_here_and_the_others_pass():
    with Flow(text_of()) as flow:
        (here,) = [answer for _, answer in flow.map([-3], errors="return")]
    with Flow(place_nodes(text_of(), ProcessEngine())) as flow:
        found = [answer for _, answer in flow.map([1, -3, 3], errors="return")]
    assert [found[0].data, found[2].data] == [2, 6]
    error = found[1]
    assert isinstance(error, FlowUnitError)
    assert (error.node, error.phase) == ("work", "process")
    assert str(error) == str(here)
    assert "ValueError: refuses -3" in str(error)
    assert error.where == here.where != ""
    assert type(error.__cause__) is ValueError
    assert str(error.__cause__) == "refuses -3"


@pytest.mark.parametrize("replicas", ["1", "2"])
def test_a_killed_process_costs_no_row(replicas):
    engine = ProcessEngine()
    with Flow(place_nodes(text_of(replicas=replicas), engine)) as flow:
        found = []
        for _, answer in flow.map(range(600), in_flight=64):
            found.append(answer.data)
            if len(found) in (100, 300):
                os.kill(processes_of(engine)[0], signal.SIGKILL)
    assert found == [2 * value for value in range(600)]
    assert figures_of(engine)["far"].lost >= 1


def test_what_stands_behind_a_far_node_is_in_its_figures_also_when_replicas_are_lost():
    flow = Flow(place_nodes(text_of(replicas="2"), ProcessEngine()))
    with flow:
        assert len([*flow.map(range(50))]) == 50
        while len((found := flow.stats()["work"]).replicas) < 2:
            pass  # a busy process has not reported yet
        assert all(nodes["work"].threads for nodes in found.replicas.values())
        inside = found.inside["work"]
        assert (inside.unit, inside.buffers, inside.errors) == ("risky", 50, 0)
        assert "work > work" in str(flow.stats())
        (error,) = (answer for _, answer in flow.map([-1], errors="return"))
        assert isinstance(error, FlowUnitError)
        assert len([*flow.map(range(20))]) == 20
        while (found := flow.stats()["work"]).inside["work"].buffers < 70:
            pass
        assert GONE in found.replicas
    after = flow.stats()["work"]
    assert [*after.replicas] == [GONE]
    assert after.inside["work"].buffers == found.inside["work"].buffers
    assert after.inside["work"].threads == 0


@pytest.mark.parametrize("is_drained", [True, False])
def test_units_are_closed_at_the_end_there_as_here(tmp_path, is_drained):
    notes = tmp_path / "notes"
    graph = text_of(replicas="2", notes=notes).replace(":risky", ":closing")
    flow = Flow(place_nodes(graph, ProcessEngine())).start()
    assert [answer.data for _, answer in flow.map(range(5))] == [*range(5)]
    flow.stop(drain=is_drained)
    assert lines_of(notes) == [1, 1]


def test_who_looks_waits_for_no_process_that_hangs():
    engine = ProcessEngine()
    with Flow(place_nodes(text_of(), engine)) as flow:
        assert flow.infer(1).data == 2
        (process,) = processes_of(engine)
        before = flow.stats()["work"].inside["work"].buffers
        os.kill(process, signal.SIGSTOP)
        try:
            for _ in range(100):
                assert flow.stats()["work"].inside["work"].buffers == before == 1
        finally:
            os.kill(process, signal.SIGCONT)
        assert flow.infer(2).data == 4
        while flow.stats()["work"].inside["work"].buffers != 2:
            pass


def test_a_row_that_kills_its_process_is_an_error_after_three_and_blames_no_other(caplog):
    rows = [*range(20), -1, *range(20, 47)]
    with Flow(place_nodes(text_of(), ProcessEngine())) as flow:
        assert flow.stats()["work"].figures["replicas"] == {"ready": 1, "starting": 0, "lost": 0}
        found = [answer for _, answer in flow.map(rows, errors="return", in_flight=48)]
        figures = flow.stats()["work"].figures["replicas"]
    bad = found.pop(20)
    assert [answer.data for answer in found] == [2 * value for value in range(47)]
    assert isinstance(bad, FlowUnitError)
    assert bad.node == "work"
    assert isinstance(bad.__cause__, ReplicaLostError)
    assert "its replica was lost 3 times while processing this row" in str(bad)
    assert "SIGKILL" in str(bad)
    assert figures["lost"] == 3
    assert figures["ready"] + figures["starting"] == 1
    told = [one for one in caplog.messages if "lost replica" in one]
    assert len(told) == 3
    assert all(one.endswith("has ended (SIGKILL)") for one in told)


def test_a_process_that_hangs_counts_as_lost_behind_the_time_out():
    engine = ProcessEngine()
    with Flow(place_nodes(text_of(replicas="2", timeout=500, retries=1), engine)) as flow:
        rows = [1, 2, -2, 3, 4]
        found = [answer for _, answer in flow.map(rows, errors="return")]
    assert [answer.data for answer in found if not isinstance(answer, Exception)] == [2, 4, 6, 8]
    assert "has done no row for 0.5 s" in str(found[2])


def test_without_retries_no_row_is_worked_on_twice(tmp_path):
    notes = tmp_path / "notes"
    rows = [*range(30), -1, *range(30, 60)]
    with Flow(place_nodes(text_of(retries=0, notes=notes), ProcessEngine())) as flow:
        found = [answer for _, answer in flow.map(rows, errors="return", in_flight=8)]
    seen = lines_of(notes)
    assert len(seen) == len(set(seen))
    lost = [answer for answer in found if isinstance(answer, Exception)]
    good = [answer.data for answer in found if not isinstance(answer, Exception)]
    assert lost
    assert len(lost) + len(good) == len(rows)
    assert all("the row may have been processed, and is not sent again" in str(one) for one in lost)
    assert all(str(one).startswith("node 'work' (unit 'remote') was lost: ") for one in lost)
    assert set(good) <= {2 * value for value in seen}


def test_flows_with_one_engine_share_the_replicas_and_end_them_together():
    engine = ProcessEngine()
    with Flow(place_nodes(text_of(), engine)) as one:
        with Flow(place_nodes(text_of(), engine)) as other:
            (process,) = processes_of(engine)
            assert one.infer(1).data == other.infer(1).data == 2
        assert processes_of(engine) == [process]
        assert one.infer(2).data == 4
    assert figures_of(engine)["far"].replicas == 0


def test_a_unit_that_does_not_open_there_is_told_here():
    text = text_of().replace("tests.remote.units:risky", "inference_missing")
    with pytest.raises(Exception, match="inference_missing"):
        place_nodes(text, ProcessEngine())

    class Sending(ProcessEngine):
        def replica(self, placement, parts, number):
            return super().replica(placement, ["no part"], number)  # type: ignore[list-item]

    engine = Sending()
    flow = Flow(place_nodes(text_of(), engine))
    with pytest.raises(FlowFailed) as caught:
        flow.start()
    assert "placement 'far': no replica: AttributeError" in str(caught.value)
    assert figures_of(engine)["far"].replicas == 0


def test_a_stop_without_draining_does_not_wait_for_a_process_that_hangs(tmp_path):
    notes = tmp_path / "notes"
    os.mkfifo(notes)
    flow = Flow(place_nodes(text_of(notes=notes), ProcessEngine())).start()
    request = Request({"input": [-2]}, lambda _: None)
    submit(flow.scheduler, [request])
    with notes.open() as told:  # as soon as the unit is called
        assert told.readline() == "-2\n"
    flow.stop(drain=False)
    with pytest.raises(StreamClosed):
        request.answer()


def test_a_unit_given_in_code_is_sent_where_that_can_be():
    from tests.remote.units import risky

    text = text_of().replace("tests.remote.units:risky", "risky")
    with Flow(place_nodes(text, ProcessEngine(), units=[risky])) as flow:
        assert flow.infer(4).data == 8


def test_a_unit_that_is_made_inside_a_function_is_sent_as_it_is():
    @flowunit
    def times(number: int, *, notes: str, factor: int = 3):
        return factor * number

    text = text_of().replace("tests.remote.units:risky", "times")
    with Flow(place_nodes(text, ProcessEngine(), units=[times])) as flow:
        assert flow.infer(4).data == 12


def test_what_is_placed_nowhere_is_told():
    with pytest.raises(PlanError, match=r"no node is placed.*\(there: far\)"):
        place_nodes(text_of().replace(", placement=far", ""), ProcessEngine())


def flow_of(unit, engine=None, **terms):
    """Returns a flow whose only node runs elsewhere."""
    text = text_of(**terms).replace("tests.remote.units:risky", f"tests.remote.units:{unit}")
    return Flow(place_nodes(text.replace(', notes=""', ""), engine or ProcessEngine()))


def test_only_the_row_that_cannot_be_sent_or_read_is_in_error_and_nothing_is_lost():
    engine = ProcessEngine()
    late = units.Unreadable(TimeoutError)
    odd = [units.Unsendable(), units.Unreadable(), "unsendable", "unreadable", late, "broken"]
    odd += ["view", "leaving"]
    with flow_of("odd", engine) as flow:
        for _ in range(3):  # more often than the number of channels
            rows = [1, *odd, 2]
            found = [answer for _, answer in flow.map(rows, errors="return")]
            assert [found[0].data, found[-1].data] == [1, 2]
            said = [str(error) for error in found[1:-1]]
            assert {error.phase for error in found[1:-1]} == {"transfer"}
            assert "a row cannot be sent to another process: ValueError: holds a" in said[0]
            assert "a row cannot be read in another process: LookupError: is of" in said[1]
            assert "its data cannot be sent to another process: ValueError" in said[2]
            assert "an answer cannot be read here: LookupError: is of another" in said[3]
            assert "a row cannot be read in another process: TimeoutError: is of" in said[4]
            assert "an answer cannot be read here: BrokenPipeError: is of another" in said[5]
            assert "its data cannot be sent to another process: ValueError: is of a" in said[6]
            assert "an answer cannot be read here: SystemExit: is of another" in said[7]
    assert figures_of(engine) == {} or figures_of(engine)["far"].lost == 0


def test_an_error_may_be_a_group_and_meta_crosses_whatever_it_holds():
    metas = [{"box": np.arange(4)}, {"k": True}, {"k": 1}]
    with flow_of("odd") as flow:
        rows = [1, "group", *(Buffer(2, meta) for meta in metas)]
        first, bad, *found = [answer for _, answer in flow.map(rows, errors="return")]
    assert [one.data for one in (first, *found)] == [1, 2, 2, 2]
    assert "ExceptionGroup: two (2 sub-exceptions)" in str(bad)
    assert type(bad.__cause__.exceptions[0]) is ValueError
    np.testing.assert_array_equal(found[0].meta["box"], np.arange(4))
    assert found[1].meta["k"] is True
    assert type(found[2].meta["k"]) is int


def test_a_unit_that_ends_the_flow_ends_it_from_there_too():
    engine = ProcessEngine()
    flow = flow_of("odd", engine).start()
    with pytest.raises(StreamClosed):
        flow.infer("end")
    with pytest.raises(FlowFailed) as caught:
        flow.stop()
    assert "enough" in str(caught.value)
    assert all(figures.lost == 0 for figures in figures_of(engine).values())


def test_a_row_that_takes_longer_than_a_silence_may_runs_once(tmp_path, monkeypatch):
    monkeypatch.setattr("modelflow.remote.channel_replica._SILENCE", 2.0)
    notes = tmp_path / "notes"
    text = text_of(notes=notes).replace("timeout_ms = 60000", "")
    with Flow(place_nodes(text, ProcessEngine())) as flow:
        assert flow.infer(-5).data == -10
    assert lines_of(notes) == [-5]


def test_one_that_gives_no_sign_of_life_is_lost_where_no_time_out_is_set(monkeypatch):
    monkeypatch.setattr("modelflow.remote.channel_replica._SILENCE", 2.0)
    text = text_of(replicas="2", retries=1).replace("timeout_ms = 60000", "")
    with Flow(place_nodes(text, ProcessEngine())) as flow:
        found = [answer for _, answer in flow.map([1, -2, 3], errors="return")]
    assert [answer.data for answer in found if not isinstance(answer, Exception)] == [2, 6]
    assert "has given no sign of life for 2 s" in str(found[1])


def test_what_moves_is_not_lost_however_long_it_takes():
    engine = ProcessEngine()
    with flow_of("slow", engine, timeout=3000) as flow:
        found = [answer.data for _, answer in flow.map(range(30), in_flight=30)]
        assert figures_of(engine)["far"].lost == 0
    assert found == list(range(30))


def test_what_a_unit_refuses_is_refused_as_on_one_machine():
    with flow_of("picky") as flow, pytest.raises(FlowUnitError) as caught:
        flow.infer(1)
    assert caught.value.is_refusal
    assert isinstance(caught.value.__cause__, BadRequest)
    assert str(caught.value.__cause__) == "got 1; expected something else"


def test_a_flow_that_stops_leaves_the_replicas_of_another_alone():
    engine = ProcessEngine()
    with flow_of("odd", engine) as kept:
        for _ in range(5):
            flow_of("odd", engine).start().stop(drain=False)
            assert kept.infer(1).data == 1
        assert figures_of(engine)["far"].lost == 0


def test_two_parts_of_one_placement_end_at_once_though_one_hangs(tmp_path):
    notes = tmp_path / "notes"
    os.mkfifo(notes)
    text = f"""
    [placement.far]
    [graph]
    graphconf = '''digraph {{
        input [type=input]
        a [flowunit="tests.remote.units:risky", placement=far, notes="{notes}"]
        here [flowunit="tests.remote.units:odd"]
        b [flowunit="tests.remote.units:odd", placement=far]
        output [type=output]
        input -> a -> here -> b -> output
    }}'''
    """
    flow = Flow(place_nodes(text, ProcessEngine())).start()
    request = Request({"input": [-2]}, lambda _: None)
    submit(flow.scheduler, [request])
    with notes.open() as told:
        assert told.readline() == "-2\n"
    flow.stop(drain=False)
    with pytest.raises(StreamClosed):
        request.answer()


def test_a_file_in_the_current_folder_is_no_module_of_its_process(tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise RuntimeError('is no library')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(filter(None, sys.path)))
    with Flow(place_nodes(text_of(), ProcessEngine())) as flow:
        assert flow.infer(2).data == 4


INDEPENDENT = """digraph {
    a [type=input]; b [type=input]; c [type=output]; d [type=output]
    one [flowunit="tests.remote.units:odd"]; other [flowunit="tests.remote.units:odd"]
    a -> one -> c; b -> other -> d
}"""


def test_inputs_that_have_nothing_to_do_with_one_another_are_not_paired():
    terms = PlacementConfig("each")
    with Flow(place_nodes(INDEPENDENT, ProcessEngine(), default=terms)) as flow:
        assert {"one", "other"} <= {*flow.graph.nodes}
        stream = flow.create_stream_io()
        for value in (1, 2, 3):
            stream.send("a", value)
        stream.send("b", 9)
        stream.close_input()
        assert [stream.recv("c").data for _ in range(3)] == [1, 2, 3]
        assert stream.recv("d").data == 9
        assert stream.wait(60)
        assert stream.errors == ()


COUNTING = """digraph {
    input [type=input]; output [type=output]; other [type=output]
    work [flowunit="tests.remote.units:odd"]; count [flowunit="tests.remote.units:count"]
    input -> work -> output; work -> count -> other
}"""


def test_what_needs_items_in_order_stays_here_and_the_rest_is_placed():
    default = PlacementConfig("each", (2, 2))
    with Flow(place_nodes(COUNTING, ProcessEngine(), default=default)) as flow:
        specs = {node.name: node.spec.name for node in flow.graph.nodes.values() if node.spec}
        assert specs == {"work": "remote", "count": "count"}
        stream = flow.create_stream_io()
        for _ in range(20):
            stream.send("input", 1)
        stream.close_input()
        assert [stream.recv("other").data for _ in range(20)] == [*range(1, 21)]


def test_a_graph_of_which_nothing_can_be_elsewhere_runs_here():
    text = COUNTING.replace(":odd", ":count")
    with Flow(place_nodes(text, ProcessEngine(), default=PlacementConfig("each"))) as flow:
        assert "remote" not in {node.spec.name for node in flow.graph.nodes.values() if node.spec}


def test_a_report_that_nobody_takes_keeps_no_unit_from_being_closed(tmp_path):
    notes = tmp_path / "notes"
    count = 300  # their reports together exceed the capacity of a pipe
    names = [f"unit{number}" for number in range(count)]
    nodes = "; ".join(
        f'{name} [flowunit="tests.remote.units:closing", notes="{notes}", placement=far]'
        for name in names
    )
    edges = f"input -> {' -> '.join(names)} -> output"
    text = f'''
    [placement.far]
    [graph]
    fuse = "off"
    graphconf = """digraph {{ input [type=input]; output [type=output]; {nodes}; {edges} }}"""
    '''
    engine = ProcessEngine()
    with Flow(place_nodes(text, engine)) as flow:
        assert flow.infer(1).data == 1
        (pool,) = engine._pools
        (slot,) = pool._slots.values()
        slot.replica._reporting._channel.send(Inquiry())
    assert notes.read_text() == "1\n" * count
