"""Tests that finished sessions are freed without the collector of cycles."""

import gc
import weakref

import pytest

import modelflow
from modelflow.runtime.session.session import Session

GRAPH = "digraph { input [type=input] twice output [type=output] input -> twice -> output }"


@modelflow.flowunit
def twice(number: int):
    return 2 * number


def infer(flow):
    assert flow.infer(3).data == 6


def infer_in_time(flow):
    assert flow.infer(3, timeout=60).data == 6


def send_and_receive(flow):
    stream = flow.create_stream_io()
    stream.meta["k"] = 1
    for number in range(3):
        stream.send("input", number)
    stream.close_input()
    assert [buffer.data for buffer in stream] == [0, 2, 4]
    assert stream.wait(60)
    assert stream.meta == {"k": 1}


def drop_a_closed_stream(flow):
    stream = flow.create_stream_io()
    stream.send("input", 1)
    stream.close_input()
    assert stream.recv().data == 2
    assert stream.wait(60)
    stream.close_input()
    stream.cancel()


@pytest.mark.parametrize("use", [infer, infer_in_time, send_and_receive, drop_a_closed_stream])
@pytest.mark.parametrize("threads", [None, 0])
def test_a_session_that_is_over_is_gone_at_once(monkeypatch, use, threads):
    made, begin = [], Session.__init__

    def noted(self, *given, **more):
        begin(self, *given, **more)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Session, "__init__", noted)
    with modelflow.Flow(GRAPH, units=[twice], threads=threads) as flow:
        use(flow)
        made.clear()
        gc.disable()
        try:
            use(flow)
            use(flow)  # the last batch may still be in the hands of the thread that processed it
            first, *_ = made
            assert len(made) == 2
            assert first() is None
        finally:
            gc.enable()
