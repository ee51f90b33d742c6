"""A part where it runs."""

import threading

import pytest

from modelflow import Flow, flowunit
from modelflow.remote.message import Rows
from modelflow.remote.part import PartFlow

GRAPH = """
[graph]
graphconf = '''digraph {
    input [type=input]
    work [flowunit=gated, threads=1, batch_size=1]
    output [type=output]
    input -> work -> output
}'''
"""


def rows_of(*values):
    return Rows("part", {"input": (list(values), [None] * len(values))}, [None] * len(values))


def test_rows_that_nobody_waits_for_any_more_are_given_up(caplog):
    seen, gate = [], threading.Semaphore(3)

    @flowunit
    def gated(value):
        gate.acquire()
        seen.append(value)
        return value

    def gone():
        gate.release(1000)
        raise BrokenPipeError("nobody hears it")

    part = PartFlow(Flow(GRAPH, units=[gated])).start()
    with pytest.raises(BrokenPipeError, match="nobody hears it"):
        part.answer(rows_of(*range(12)), on_move=gone)
    assert part.answer(rows_of("next")).columns["output"][0] == ["next"]
    part.stop()
    assert "next" in seen
    assert len(seen) < 10
    assert not caplog.records
