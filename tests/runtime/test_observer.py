"""Who is given to a flow as an observer is told of every batch."""

import threading

from modelflow.unit.kind import Kind
from tests.runtime.graphs import Running, chain, graph_of, spec_of, unit_of
from tests.runtime.test_scheduler import counting_source


class Recorder:
    def __init__(self):
        self.told = []
        self._lock = threading.Lock()

    def _note(self, *what):
        with self._lock:
            self.told.append(what)

    def took(self, node, worker, rows, waited_from, now):
        assert waited_from <= now
        self._note("took", node, worker, rows)

    def called(self, node, worker, rows, start, end):
        assert start <= end
        self._note("called", node, worker, rows)

    def blocked(self, node, worker, start, end):
        assert start <= end
        self._note("blocked", node, worker)


def test_an_observer_is_told_what_each_worker_took_called_and_waited_for():
    observer = Recorder()
    one = {"threads": 1, "batch_size": 1}
    with Running(chain((spec_of(), one), (spec_of(), one)), observer=observer) as flow:
        assert flow.infer(1).data == 1
    for node in ("n0", "n1"):
        told = [what for what in observer.told if what[1] == node]
        assert told[:3] == [("took", node, 0, 1), ("called", node, 0, 1), ("blocked", node, 0)]


def test_an_inline_flow_tells_of_its_calls():
    observer = Recorder()
    with Running(chain(spec_of()), observer=observer, is_inline=True) as flow:
        flow.infer(1)
    assert ("called", "n0", 0, 1) in observer.told


def test_sources_and_stream_units_tell_of_their_calls():
    def same(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    observer = Recorder()
    nodes = {
        "source": counting_source(2),
        "stream": (unit_of(same, kind=Kind.STREAM), {"threads": 1}),
        "output": "output",
    }
    with Running(graph_of(nodes, ["source -> stream", "stream -> output"]), observer=observer) as f:
        assert f.scheduler.wait(60)
    called = {what[1] for what in observer.told if what[0] == "called"}
    assert called == {"source", "stream"}
