"""One run of a flow: who sends what ``--input`` names, who receives, who writes."""

import queue
import threading
from functools import partial
from typing import TYPE_CHECKING

from modelflow.cli.termination import undisturbed
from modelflow.errors import Cancelled, EndOfStream, StreamClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from modelflow.buffer import Buffer
    from modelflow.cli.feeding import Feed
    from modelflow.flow import Flow
    from modelflow.stream_io import StreamIO

    Write = Callable[[str, Buffer], None]

__all__ = ["Run"]

# Results between the threads that receive and the one that writes.
_QUEUE = 64


class Run:
    """One run of a flow: who sends, who receives, who writes."""

    def __init__(self, flow: "Flow", feeds: "Sequence[Feed]", write: "Write") -> None:
        """Opens the session, of a graph with inputs.

        Args:
            flow: It runs.
            feeds: What goes into each input.
            write: Takes each result, with the name of its output; on the thread that runs this.
        """
        self._flow = flow
        self._feeds = feeds
        self._write = write
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
        begun: list[threading.Thread] = []
        ended = 0
        try:
            undisturbed(partial(_start, threads, begun))
            while ended < len(receivers):
                result = self._results.get()
                if result is None:
                    ended += 1
                else:
                    self._write(*result)
            self._wait_for_sinks()
        except BaseException:  # Ctrl-C, or our reader has gone: end everything at once
            for stream in self.streams:
                stream.cancel()
            while ended < min(len(begun), len(receivers)):  # they may wait for room in the queue
                ended += self._results.get() is None
            raise
        finally:
            for feed in self._feeds:
                feed.stop()
            for thread in begun:
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
                self._write(port, buffer)

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


def _start(threads: "Sequence[threading.Thread]", begun: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
        begun.append(thread)


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
