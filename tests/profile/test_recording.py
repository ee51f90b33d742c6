"""Recordings of flows, as Perfetto's own trace processor reads them."""

import gzip
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

import modelflow
from modelflow.errors import Cancelled, FlowUnitError, RecordingError
from modelflow.profile.recording import Recording
from modelflow.unit.kind import Loop
from tests import programs
from tests.perfetto import needs_perfetto, opened
from tests.profile.flows import GRAPH, odd
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, graph_of, per_item, unit_of
from tests.runtime.kinds.test_expand import collapse, expand
from tests.runtime.process_units import plus_one


def events(path):
    return json.loads(path.read_text())


def rich_graph():
    """Returns a graph with two fused nodes, a stream of parts, a loop, and a process unit."""

    def odd_fails(value):
        if value % 2:
            message = "odd"
            raise ValueError(message)
        return value

    def again(ctx):
        (value,) = ctx.input()
        ctx.emit([value], "back" if value.data < 20 else "exit")

    fused = {"fuse": "pair", "threads": 1}
    nodes = {
        "input": "input",
        "check": (per_item(odd_fails), fused),
        "same": (per_item(lambda value: value), fused),
        "expand": (expand(lambda ctx: ctx.emit([b.data for b in ctx.input()] * 3)), {"threads": 2}),
        "part": (per_item(lambda value: value + 1), {"threads": 2, "batch_size": 2}),
        "collapse": collapse(lambda ctx: ctx.emit([sum(b.data for b in ctx.input())])),
        "loop": unit_of(again, outputs=("back", "exit"), kind=Loop()),
        "body": per_item(lambda value: value + 5),
        "far": (plus_one.SPEC, {"workers": "process"}),
        "output": "output",
    }
    edges = [
        "input -> check",
        "check -> same",
        "same -> expand",
        "expand -> part",
        "part -> collapse",
        "collapse -> loop",
        "loop:back -> body",
        "body -> loop",
        "loop:exit -> far",
        "far -> output",
    ]
    return graph_of(nodes, edges)


@needs_perfetto
def test_perfetto_finds_every_call_and_every_step_of_a_sampled_request(tmp_path):
    trace = tmp_path / "trace.json.gz"
    flow = modelflow.Flow(rich_graph())
    # The recording goes on until the flow has stopped, because cancelled rows may be in progress
    # until then.
    with flow.record(trace, requests=2, every=1) as recording, flow:
        answers, failures = [], 0
        for value in range(6):
            try:
                answers.append(flow.infer(value).data)
            except FlowUnitError:
                failures += 1
        stream = flow.create_stream_io()
        stream.send("input", 2)
        while flow.stats()["expand"].batches < 7:  # the flow has reached this point
            pass
        stream.cancel()
        with pytest.raises(Cancelled):
            stream.recv("output")
    stats = flow.stats()
    assert (len(answers), failures, recording.lost) == (3, 3, 0)
    with opened(trace) as perfetto:
        assert perfetto.complaints() == []
        calls = perfetto.query(
            "select name, count(*) from slice where category = 'call' group by 1"
        )
        assert dict(calls) == {node: found.batches for node, found in stats.items()}
        # Request 0, 2, 4 and the one that was cancelled: an arrow between two steps each.
        steps = perfetto.query(
            "select s.parent_id, count(*) from slice s where s.category = 'request' "
            "and s.name not in ('wait') and s.name not like 'request %' group by 1"
        )
        (((arrows,),),) = [perfetto.query("select count(*) from flow")]
        assert arrows == sum(count for _, count in steps) - recording.requests
        assert recording.requests == 4
        overlaps = (
            "select count(*) from slice a join slice b using (track_id) where a.id < b.id and "
            "a.depth = b.depth and a.dur > 0 and b.dur > 0 and "
            "a.ts < b.ts + b.dur and b.ts < a.ts + a.dur"
        )
        assert perfetto.query(overlaps) == [[0]]
        assert perfetto.query("select count(*) from slice where dur < 0") == [[0]]
        tracks = {
            name for (name,) in perfetto.query("select name from thread where name is not null")
        }
        assert {"check/0", "part/0", "part/1", "far/0"} <= tracks


def test_a_requests_waits_and_calls_are_its_whole_time(tmp_path):
    trace = tmp_path / "trace.json"
    nodes = {"input": "input", "a": per_item(abs), "b": per_item(abs), "output": "output"}
    graph = graph_of(nodes, ["input -> a", "a -> b", "b -> output"])
    with modelflow.Flow(graph) as flow, flow.record(trace, requests=1):
        for value in range(5):
            flow.infer(value)
    bars = [event for event in events(trace) if event.get("cat") == "request" and "id2" in event]
    for number in range(1, 6):
        own = [event for event in bars if event["id2"]["local"] == str(number)]
        assert [event["ts"] for event in own] == sorted(event["ts"] for event in own)
        inner, open_at, whole = 0.0, {}, 0.0
        for event in own:
            if event["ph"] == "b":
                open_at[event["name"]] = event["ts"]
            elif event["name"].startswith("request"):
                whole = event["ts"] - open_at[event["name"]]
            else:
                inner += event["ts"] - open_at[event["name"]]
        assert inner == pytest.approx(whole, abs=0.01)  # in us
        names = Counter(event["name"] for event in own)
        assert (names["a"], names["b"]) == (2, 2)


@pytest.mark.parametrize("every", [1, 1000])
def test_a_wait_for_room_is_a_slice_of_its_own_unless_it_is_short_and_not_its_turn(tmp_path, every):
    trace, go_on = tmp_path / "trace.json", threading.Event()

    def wait(value):
        go_on.wait(60)
        return value

    one = {"threads": 1, "batch_size": 1, "queue_size": 1}
    nodes = {"input": "input", "a": (per_item(abs), one), "b": (per_item(wait), one)}
    graph = graph_of({**nodes, "output": "output"}, ["input -> a", "a -> b", "b -> output"])
    with modelflow.Flow(graph) as flow, flow.record(trace, every=every, short=3600.0):
        stream = flow.create_stream_io()
        for value in range(3):
            stream.send("input", value)
        while not flow.stats()["a"].blocked:
            pass
        go_on.set()
        stream.close_input()
        assert [stream.recv().data for _ in range(3)] == [0, 1, 2]
    blocked = [event for event in events(trace) if event.get("name") == "blocked"]
    assert bool(blocked) == (every == 1)
    assert all(event["dur"] > 0 for event in blocked)


def test_what_happens_to_the_flow_is_a_moment_in_its_trace(tmp_path):
    trace = tmp_path / "trace.json"
    nodes = {"input": "input", "a": (per_item(abs), {"threads": 1}), "output": "output"}
    flow = modelflow.Flow(graph_of(nodes, ["input -> a", "a -> output"]))
    with flow, flow.record(trace):
        flow.reconfigure({"a.threads": 2})
        with pytest.raises(FlowUnitError):
            flow.reload("a")
        flow.reconfigure({"a.batch_size": 4, "a.threads": 1})
    told = [event for event in events(trace) if event["ph"] == "i"]
    assert [(event["name"], event["args"]) for event in told] == [
        ("reconfigure", {"a.threads": "2"}),
        ("reload failed", {"node": "a"}),
        ("reconfigure", {"a.batch_size": "4", "a.threads": "1"}),
    ]


def test_the_slowest_request_of_a_second_is_followed_whoever_is_sampled(tmp_path):
    trace, clock = tmp_path / "trace.json", FakeClock()
    took = {1: 0.1, 2: 0.3, 3: 0.2}

    def work(value):
        clock.advance(took[value])
        return value

    graph = graph_of(
        {"input": "input", "a": per_item(work), "output": "output"}, ["input -> a", "a -> output"]
    )
    with (
        Running(graph, clock=clock, is_inline=True) as flow,
        Recording(flow.scheduler, trace, requests=0, slowest=1) as recording,
    ):
        for value in took:
            assert flow.infer(value).data == value
    assert recording.requests == 1
    steps = [event for event in events(trace) if event.get("name") == "a" and event["ph"] == "b"]
    ((begin,), (end,)) = (
        [event["ts"] for event in events(trace) if event.get("name") == "a" and event["ph"] == one]
        for one in "be"
    )
    assert len(steps) == 1
    assert end - begin == pytest.approx(300_000)


def test_a_request_that_is_not_over_is_told_as_it_stands(tmp_path):
    trace = tmp_path / "trace.json"
    nodes = {"input": "input", "a": per_item(abs), "output": "output"}
    with modelflow.Flow(graph_of(nodes, ["input -> a", "a -> output"])) as flow:
        with flow.record(trace, requests=1):
            stream = flow.create_stream_io()
            stream.send("input", -1)
            assert stream.recv().data == 1
            other = flow.record(trace)
            with pytest.raises(RuntimeError, match="is being recorded already"):
                other.start()
        stream.cancel()
        flow.infer(1)
    (head,) = [e for e in events(trace) if e["ph"] == "b" and e["name"].startswith("request")]
    assert head["args"]["is_over"] is False


def test_a_flow_may_be_recorded_before_it_starts_and_beyond_its_end(tmp_path):
    trace = tmp_path / "trace.json"
    nodes = {"input": "input", "a": per_item(abs), "output": "output"}
    flow = modelflow.Flow(graph_of(nodes, ["input -> a", "a -> output"]))
    with flow.record(trace, every=1) as recording:
        with flow:
            flow.infer(1)
        recording.stop()
    assert [event["name"] for event in events(trace) if event["ph"] == "X"] == ["a"]


def test_a_recording_that_cannot_be_written_leaves_the_flow_alone(tmp_path):
    nodes = {"input": "input", "a": per_item(abs), "output": "output"}
    with modelflow.Flow(graph_of(nodes, ["input -> a", "a -> output"])) as flow:
        with pytest.raises(RecordingError, match="cannot be written: No such file"):
            flow.record(tmp_path / "none" / "trace.json").start()
        with flow.record(tmp_path / "trace.json"):
            assert flow.infer(-1).data == 1


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"requests": -1}, "requests: got -1; expected 0 to 65536"),
        ({"every": 0}, "every: got 0; expected 1 to 65536"),
    ],
)
def test_numbers_are_checked(tmp_path, option, text):
    nodes = {"input": "input", "a": per_item(abs), "output": "output"}
    flow = modelflow.Flow(graph_of(nodes, ["input -> a", "a -> output"]))
    with pytest.raises(ValueError, match=text):
        flow.record(tmp_path / "trace.json", **option)


KILLED = """
import os, signal, sys, time
import modelflow

@modelflow.flowunit
def same(value: int):
    return value

graph = "digraph { input [type=input] same output [type=output] input -> same -> output }"
with modelflow.Flow(graph, units=[same]) as flow, flow.record(sys.argv[1], every=1) as recording:
    while recording.slices < 100:
        flow.infer(1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def cut_off(tmp_path):
    trace = tmp_path / "trace.json.gz"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(trace)], timeout=programs.LIMIT, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    return trace


def test_a_process_that_is_killed_leaves_what_it_has_written(cut_off):
    text = gzip.decompress(cut_off.read_bytes()).decode()
    found = [json.loads(line.rstrip(",")) for line in text.splitlines()[1:]]
    assert sum(event["ph"] == "X" for event in found) >= 100


@needs_perfetto
def test_perfetto_opens_what_a_killed_process_has_left(cut_off, tmp_path):
    with opened(cut_off) as perfetto:
        assert perfetto.complaints() == []
        ((calls,),) = perfetto.query("select count(*) from slice where category = 'call'")
        assert calls >= 100


def test_a_disk_that_is_full_ends_the_recording_and_keeps_nothing():
    with modelflow.Flow(GRAPH, units=[odd]) as flow:
        recording = flow.record("/dev/full", requests=1, every=1).start()
        while not recording._has_failed:
            flow.infer(2)
        for _ in range(20):
            flow.infer(2)
        assert not recording._done
        assert not recording._open
        with pytest.raises(RecordingError, match="/dev/full: cannot be written: No space left"):
            recording.stop()


def test_requests_that_end_during_a_write_are_written_by_the_next(tmp_path):
    trace = tmp_path / "t.json"
    with modelflow.Flow(GRAPH, units=[odd]) as flow:

        def follow(_):
            flow.infer(2)
            flow.infer(2)

        # Each written request makes two new ones: a write that goes on to the last never ends.
        with flow.record(trace, requests=1, every=1, followed=follow) as recording:
            flow.infer(2)
            while not recording.slices:  # counted at the end of a write
                pass
        assert recording.lost == 0
    begun = [e for e in events(trace) if e["ph"] == "b" and e["name"].startswith("request")]
    assert len(begun) == recording.requests


def test_requests_that_end_faster_than_they_are_written_are_lost_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("modelflow.profile.recording._MOST_REQUESTS", 3)
    trace = tmp_path / "t.json"
    entered, go_on = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        go_on.wait(60)

    with modelflow.Flow(GRAPH, units=[odd]) as flow:
        with flow.record(trace, requests=1, followed=hold) as recording:
            flow.infer(2)
            entered.wait(60)
            for _ in range(8):
                flow.infer(2)
            go_on.set()
        assert (recording.requests, recording.lost) == (4, 5)


def test_a_recording_is_made_once(tmp_path):
    with modelflow.Flow(GRAPH, units=[odd]) as flow:
        recording = flow.record(tmp_path / "t.json")
        with recording:
            flow.infer(2)
        size = (tmp_path / "t.json").stat().st_size
        with pytest.raises(RuntimeError, match="this recording has ended; make another one"):
            recording.start()
        assert (tmp_path / "t.json").stat().st_size == size


def test_a_call_that_began_before_the_recording_is_shown_from_there_on(tmp_path):
    entered, go_on = threading.Event(), threading.Event()

    @modelflow.flowunit(threads=1)
    def hold(value):
        entered.set()
        go_on.wait(60)
        return value

    graph = "digraph g { input [type=input] hold o [type=output] input -> hold -> o }"
    with modelflow.Flow(graph, units=[hold]) as flow:
        stream = flow.create_stream_io()
        for value in range(2):
            stream.send("input", value)
        entered.wait(60)
        with flow.record(tmp_path / "t.json", every=1):
            go_on.set()
            stream.close_input()
            list(stream)
    events = json.loads((tmp_path / "t.json").read_text())
    slices = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X")
    assert slices[0][0] == 0.0
    for (_, end), (begin, _) in itertools.pairwise(slices):
        assert begin >= end - 0.01
