"""``modelflow run``: feeds a graph, writes its results, counts its errors."""

import collections
import contextlib
import queue
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from modelflow.cli.graph_options import GraphChoice, graph_options
from modelflow.cli.termination import TERMINATED, termination
from modelflow.errors import Cancelled, EndOfStream, FlowFailed, StreamClosed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelflow.buffer import Buffer
    from modelflow.cli.feeding import Feed
    from modelflow.cli.writing import ResultWriter
    from modelflow.flow import Flow
    from modelflow.stream_io import StreamIO

__all__ = ["run"]

# Results between the threads that receive and the one that writes.
_QUEUE = 64


@click.command()
@graph_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|GLOB|-",
    help="What goes into an input of the graph: a buffer a file; '-': standard input.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|-",
    help="Where an output's results go: JSON lines into a file or (without this) to standard "
    "output; into a folder a file a result (an image as PNG).",
)
@click.option("--keep-going", is_flag=True, help="Exit with 0 even if there were errors.")
@click.option("--sync", is_flag=True, help="Run everything on one thread, for debugging.")
def run(
    graph: GraphChoice,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    keep_going: bool,
    sync: bool,
) -> int:
    """Runs a graph: a file, or the name of one that comes with modelflow.

    A graph with inputs is fed by --input; one with sources runs until they are done, or Ctrl-C,
    which ends it at once; SIGTERM lets it finish what it has taken on. An
    item that fails becomes an error line in its place; the others go on, and the exit code is 1.

    \b
    modelflow run graphs/digits.toml
    modelflow run graph.toml --input 'input=photos/*.jpg' --output output=out/
    cat a.jpg | modelflow run graph.toml --input - --set 'infer.device=cpu'
    """
    from modelflow.cli.feeding import feeds_of
    from modelflow.cli.progress import progress
    from modelflow.cli.writing import ResultWriter
    from modelflow.flow import Flow

    checked = graph.read()
    for note in checked.notes:
        click.echo(f"note: {note}", err=True)
    feeds = feeds_of(inputs, checked.inputs)
    writer = ResultWriter(outputs, checked.outputs)
    # Built before a signal may come: only what is there can be stopped.
    flow = Flow(checked, threads=0 if sync else None).build()
    start = time.perf_counter()
    finish = None if sync else partial(_finish, flow)
    asked = threading.Event()
    try:
        # Around the start as well: a server is sent signals from the moment in which it listens.
        with termination(asked, finish), flow, progress(flow, writer):
            runner = _Run(flow, feeds, writer)
            if sync:
                runner.inline()
            else:
                runner.threaded()
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Abort from interrupt
    except StreamClosed:
        if asked.is_set():
            return TERMINATED  # before there was anything to finish
        raise
    finally:
        writer.close()
    # Only now that the flow has been left: leaving it finishes what is still under way.
    code = _summary(flow, writer, runner.streams, time.perf_counter() - start, keep_going)
    return TERMINATED if asked.is_set() else code


def _finish(flow: "Flow") -> None:
    """Has the flow take on nothing more and finish what is under way; from any thread."""
    with contextlib.suppress(FlowFailed):  # it is raised again where the flow is left
        flow.stop()


class _Run:
    """One run of a flow: who sends, who receives, who writes."""

    def __init__(self, flow: "Flow", feeds: "Sequence[Feed]", writer: "ResultWriter") -> None:
        self._flow = flow
        self._feeds = feeds
        self._writer = writer
        self._results = _Results(_QUEUE)
        self._sources: list[StreamIO] = list(flow.source_streams.values())
        self._stream = flow.create_stream_io() if feeds else None

    @property
    def streams(self) -> "list[StreamIO]":
        """Returns every session that was fed here or by a source."""
        return [*self._sources, *([self._stream] if self._stream is not None else [])]

    def threaded(self) -> None:
        """Sends and receives in threads of their own; writes here."""
        receivers = [
            threading.Thread(
                target=self._receive, args=(stream, port), name=f"modelflow-cli/recv-{port}"
            )
            for stream in self.streams
            for port in stream.outputs
        ]
        threads = list(receivers)
        if self._stream is not None:
            threads.append(threading.Thread(target=self._send, name="modelflow-cli/send"))
        left = len(receivers)
        for thread in threads:
            thread.start()
        try:
            while left:
                result = self._results.get()
                if result is None:
                    left -= 1
                else:
                    self._writer.write(*result)
            self._wait_for_sinks()
        except BaseException:  # Ctrl-C, or our reader has gone: end everything at once
            for stream in self.streams:
                stream.cancel()
            while left:  # the receivers may wait for room in the queue
                left -= self._results.get() is None
            raise
        finally:
            for thread in threads:
                thread.join()

    def inline(self) -> None:
        """Does everything on the calling thread."""
        if self._stream is not None:
            for row in zip(*self._feeds, strict=True):
                for feed, buffer in zip(self._feeds, row, strict=True):
                    self._stream.send(feed.port, buffer)
                self._write_ready(self._stream)
            self._stream.close_input()
        for stream in self.streams:
            self._write_ready(stream)
        self._wait_for_sinks()

    def _write_ready(self, stream: "StreamIO") -> None:
        for port in stream.outputs:
            for buffer in _ready(stream, port):
                self._writer.write(port, buffer)

    def _wait_for_sinks(self) -> None:
        for stream in self.streams:
            stream.wait()
        if self._sources:  # and for the sessions that they have opened
            self._flow.wait()

    def _send(self) -> None:
        stream = self._stream
        assert stream is not None  # only then is this thread started
        try:
            for row in zip(*self._feeds, strict=True):
                for feed, buffer in zip(self._feeds, row, strict=True):
                    stream.send(feed.port, buffer)
            stream.close_input()
        except (Cancelled, StreamClosed):
            return  # the run is ending: whoever ended it says why

    def _receive(self, stream: "StreamIO", port: str) -> None:
        try:
            while True:
                self._results.put((port, stream.recv_buffer(port)))
        except (EndOfStream, Cancelled, StreamClosed):
            pass  # the end, or whoever ended the run says why
        finally:
            self._results.put(None)


class _Results:
    """Results between the threads that receive and the one that writes; None: one has ended.

    A Ctrl-C may come while `get` waits, which leaves a `queue.Queue` with a lock that nobody holds.
    """

    def __init__(self, most: int) -> None:
        self._room = threading.Semaphore(most)
        self._items: queue.SimpleQueue[tuple[str, Buffer] | None] = queue.SimpleQueue()

    def put(self, item: "tuple[str, Buffer] | None") -> None:
        """Adds one, when there is room."""
        self._room.acquire()
        self._items.put(item)

    def get(self) -> "tuple[str, Buffer] | None":
        """Waits for the next one."""
        item = self._items.get()
        self._room.release()
        return item


def _ready(stream: "StreamIO", port: str) -> "Iterator[Buffer]":
    while True:
        try:
            yield stream.recv_buffer(port, timeout=0)
        except (TimeoutError, EndOfStream):
            return


def _summary(
    flow: "Flow",
    writer: "ResultWriter",
    streams: "Sequence[StreamIO]",
    seconds: float,
    keep_going: bool,
) -> int:
    stats = flow.stats().values()
    items = writer.items or max((node.buffers for node in stats), default=0)
    at_sinks = sum(stream.error_count for stream in streams)
    errors = writer.errors + at_sinks
    kept = collections.Counter(str(error) for stream in streams for error in stream.errors)
    for text, count in kept.items():
        click.echo(f"error: {text}" + (f" ({count} times)" if count > 1 else ""), err=True)
    if at_sinks > kept.total():
        click.echo(f"error: and {at_sinks - kept.total()} more", err=True)
    rate = items / seconds if seconds else 0.0
    click.echo(
        f"{items} items, {errors} errors, {seconds:.2f} s, {rate:.1f} items/s",
        err=True,
    )
    sys.stdout.flush()
    return 1 if errors and not keep_going else 0
