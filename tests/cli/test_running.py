"""A run whose threads cannot all be had."""

import threading

import pytest

from modelflow import Flow
from modelflow.cli.feeding import Feed
from modelflow.cli.running import Run
from modelflow.errors import Cancelled

GRAPH = """digraph {
    input [type=input] output [type=output] more [type=output]
    input -> output
    input -> more
}"""


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_thread_that_cannot_be_started_ends_the_run(monkeypatch, place):
    start, names = threading.Thread.start, []

    def refusing(thread):
        if thread.name.startswith("modelflow-cli/"):
            names.append(thread.name)
            if len(names) > place:
                message = "can't start new thread"
                raise RuntimeError(message)
        start(thread)

    with Flow(GRAPH) as flow:
        run = Run(flow, [Feed("input", [])], lambda *_: None)
        monkeypatch.setattr(threading.Thread, "start", refusing)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            run.threaded()
        monkeypatch.undo()
        (stream,) = run.streams
        with pytest.raises(Cancelled):
            stream.recv("output")
    assert len(names) == place + 1
