"""Tests of the trace that workers record."""

import pytest

from modelflow.errors import FlowFailed
from modelflow.runtime.workers.trace_buffer import BLOCKED, Slice, TraceBuffer, slice_of
from modelflow.unit.kind import Stream
from tests.runtime.graphs import Running, chain, graph_of, spec_of, unit_of
from tests.runtime.queues.test_inbox import segment, stream
from tests.runtime.test_scheduler import counting_source


class Recorder:
    """Makes and keeps trace buffers."""

    def __init__(self, every=1, short=0.0):
        self.rings, self.moments = {}, []
        self._more = every, short

    def ring(self, track):
        ring = self.rings[track] = TraceBuffer(*self._more)
        return ring

    def watcher(self, session, began, leave):
        return None

    def note_event(self, what, details):
        self.moments.append((what, details))

    def taken(self):
        return {track: ring.take() for track, ring in self.rings.items()}


def recorded(graph, use, recorder=None, **options):
    recorder = recorder or Recorder()
    with Running(graph, **options) as flow:
        flow.scheduler.record(recorder)
        use(flow)
    return recorder


@pytest.mark.parametrize("is_inline", [False, True])
def test_every_worker_notes_its_calls(is_inline):
    one = {"threads": 1, "batch_size": 1}
    graph = chain((spec_of(), one), (spec_of(), one))
    found = recorded(graph, lambda flow: flow.infer(1), is_inline=is_inline).taken()
    assert list(found) == ["n0/0", "n1/0"]
    for track, slices in found.items():
        (one,) = slices
        assert (one.name, one.rows, one.sessions, one.errors) == (track[:2], 1, 1, 0)
        assert one.arrived <= one.start <= one.end


def test_a_chain_notes_each_of_its_units():
    fused = {"threads": 1, "fuse": "a"}
    graph = chain((spec_of(), fused), (spec_of(), fused))
    ((slices),) = recorded(graph, lambda flow: flow.infer(1)).taken().values()
    assert [one.name for one in slices] == ["n0", "n1"]
    assert slices[0].end <= slices[1].start


def test_sources_and_stream_units_note_their_calls():
    nodes = {
        "source": counting_source(2),
        "stream": (unit_of(lambda ctx: ctx.emit(ctx.input()), kind=Stream()), {"threads": 1}),
        "output": "output",
    }
    recorder = Recorder()
    flow = Running(graph_of(nodes, ["source -> stream", "stream -> output"]))
    flow.scheduler.record(recorder)  # before the start, because the source is quick
    with flow:
        assert flow.scheduler.wait(60)
    found = recorder.taken()
    assert {track: {one.name for one in slices} for track, slices in found.items()} == {
        "source/0": {"source"},
        "stream/0": {"stream"},
    }
    assert sum(one.rows for one in found["stream/0"]) == 2


def test_nothing_is_noted_any_more_when_nobody_records():
    def use(flow):
        flow.infer(1)
        flow.scheduler.record(None)
        flow.infer(2)

    (ring,) = recorded(chain((spec_of(), {"threads": 1})), use).rings.values()
    assert len(ring.take()) == 1


def test_one_recorder_at_a_time():
    with Running(chain(spec_of())) as flow:
        flow.scheduler.record(Recorder())
        with pytest.raises(RuntimeError, match="'test' is being recorded already"):
            flow.scheduler.record(Recorder())
        flow.scheduler.record(None)
        flow.scheduler.record(Recorder())


@pytest.mark.parametrize(("every", "short", "kept"), [(4, 60.0, 2), (4, 0.0, 32), (1, 60.0, 32)])
def test_of_calls_that_are_far_too_short_few_are_kept(every, short, kept):
    def use(flow):
        for value in range(32):
            flow.infer(value)

    graph = chain((spec_of(), {"threads": 1}))
    (ring,) = recorded(graph, use, Recorder(every, short)).rings.values()
    assert len(ring.take()) == kept


def test_of_calls_whose_turn_has_come_those_far_too_short_are_rarer():
    ring = TraceBuffer(16, 50e-6)
    assert [next(ring.turns) for _ in range(32)].count(1) == 2
    assert all(ring.is_due(11e-6) for _ in range(8))
    assert [ring.is_due(9e-6) for _ in range(8)].count(True) == 2


def test_what_is_not_taken_in_time_is_lost_and_counted(monkeypatch):
    monkeypatch.setattr("modelflow.runtime.workers.trace_buffer._MOST", 2)
    ring = TraceBuffer(1, 0.0)
    for number in range(5):
        ring.note(Slice("n", number, number))
    assert ring.lost == 3
    assert [one.start for one in ring.take()] == [3, 4]
    assert (ring.lost, ring.take()) == (3, [])
    ring.note(Slice(BLOCKED, 5.0, 6.0))
    assert ring.lost == 3


def test_a_slice_keeps_names_and_numbers_alone():
    spans = [segment(stream(name), 0, 1) for name in "ab"]
    assert slice_of("n", 1.0, 2.0, 2, 0.5, spans, 1) == ("n", 1.0, 2.0, 2, 0.5, "a", 2, 1)
    assert slice_of("n", 1.0, 2.0, 0, 0.0, (), 0) == ("n", 1.0, 2.0, 0, 0.0, "", 0, 0)


def test_who_records_is_told_of_a_flow_that_fails():
    def close():
        message = "no end"
        raise ValueError(message)

    def use(flow):
        flow.infer(1)
        with pytest.raises(FlowFailed):
            flow.scheduler.stop()

    spec = unit_of(lambda ctx: ctx.emit(ctx.input()), hooks={"close": close})
    recorder = Recorder()
    with pytest.raises(FlowFailed):
        recorded(chain((spec, {"threads": 1})), use, recorder)
    ((what, details),) = recorder.moments
    assert (what, "no end" in details["error"]) == ("failed", True)
