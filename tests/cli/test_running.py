"""Tests of a run whose threads cannot be started, or fail."""

import itertools
import threading

import pytest
from click.testing import CliRunner

from modelflow import Flow
from modelflow.buffer import Buffer
from modelflow.cli.main import cli
from modelflow.errors import Cancelled, EndOfStream, ModelflowError
from modelflow.job.inputs import Feed
from modelflow.job.run import Run
from modelflow.stream_io import StreamIO

GRAPH = """digraph {
    input [type=input] output [type=output] more [type=output]
    input -> output
    input -> more
}"""
SINK = "digraph { input [type=input] file_sink [path=all] input -> file_sink }"


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
            run.run_threaded()
        monkeypatch.undo()
        (stream,) = run.streams
        with pytest.raises(Cancelled):
            stream.recv("output")
    assert len(names) == place + 1


class Broken(Feed):
    """Fails after its first item, with an unexpected error."""

    def __iter__(self):
        yield Buffer(b"1")
        message = "the disk is on fire"
        raise LookupError(message)


def failing_receive(monkeypatch):
    """Makes the second received result fail with an unexpected error."""
    receive, count = StreamIO.recv, itertools.count()

    def recv(stream, port=None, timeout=None, **more):
        buffer = receive(stream, port, timeout, **more)
        if next(count) == 1:
            message = "cannot set WRITEABLE flag"
            raise ValueError(message)
        return buffer

    monkeypatch.setattr(StreamIO, "recv", recv)


@pytest.mark.parametrize("graph", [GRAPH, SINK])
def test_a_feed_that_fails_ends_the_run_with_its_exception(folder, graph):
    with Flow(graph) as flow:
        run = Run(flow, [Broken("input", [])], lambda *_: None)
        with pytest.raises(LookupError, match="the disk is on fire"):
            run.run_threaded()


def test_a_result_that_cannot_be_received_ends_the_run_with_its_exception(monkeypatch, tmp_path):
    failing_receive(monkeypatch)
    paths = [tmp_path / f"{number}.txt" for number in range(500)]
    for path in paths:
        path.write_text("text")
    with Flow(GRAPH) as flow:
        run = Run(flow, [Feed("input", paths)], lambda *_: None)
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            run.run_threaded()


def test_results_that_are_missing_are_an_error_with_the_numbers(monkeypatch, tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with Flow(GRAPH) as flow:
        run = Run(flow, [Feed("input", [tmp_path / "a.txt"] * 3)], lambda *_: None)
        receive, count = StreamIO.recv, itertools.count()

        def recv(stream, port=None, timeout=None, **more):
            if port == "more" and next(count) == 2:
                raise EndOfStream
            return receive(stream, port, timeout, **more)

        monkeypatch.setattr(StreamIO, "recv", recv)
        run.run_threaded()
    missing = "output 'more': 2 results were written for 3 items that were sent"
    with pytest.raises(ModelflowError, match=missing):
        run.check_complete()


@pytest.mark.parametrize("more", [(), ("--keep-going",)])
def test_a_thread_that_dies_is_a_failure_of_the_command(monkeypatch, folder, more):
    failing_receive(monkeypatch)
    words = ["run", "small.toml", "--input", "photos", "--output", "o.jsonl", *more]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1
    assert "cannot set WRITEABLE flag" in str(done.exception)
