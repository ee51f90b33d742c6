"""One run of a flow: who sends what ``--input`` names, who receives, who writes."""

import queue
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from modelflow.errors import Cancelled, EndOfStream, ModelflowError, StreamClosed
from modelflow.signals import call_undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from modelflow.buffer import Buffer
    from modelflow.flow import Flow
    from modelflow.job.inputs import Feed
    from modelflow.stream_io import StreamIO

    Write = Callable[[str, Buffer], None]

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
        self._sent = 0
        self._written: Counter[str] = Counter()
        self._failure: BaseException | None = None  # the first of a thread of this run
        self._sources = [flow.create_stream_io(source=name) for name in flow.scheduler.sources]
        self._stream = flow.create_stream_io() if feeds else None

    @property
    def streams(self) -> "list[StreamIO]":
        """Returns every session that was fed here or by a source."""
        return [*self._sources, *([self._stream] if self._stream is not None else [])]

    def run_threaded(self) -> None:
        """Sends and receives in threads of their own; writes here.

        Raises:
            BaseException: writing has failed, or one of the threads.
        """
        receivers = [
            self._thread(f"recv-{port}", partial(self._receive, stream, port))
            for stream in self.streams
            for port in stream.outputs
        ]
        threads = list(receivers)
        if self._stream is not None:
            threads.append(self._thread("send", self._send))
        begun: list[threading.Thread] = []
        ended = 0
        try:
            call_undisturbed(partial(_start, threads, begun))
            while ended < len(receivers):
                result = self._results.get()
                if result is None:
                    ended += 1
                else:
                    self._write_result(*result)
            self._wait_for_sinks()
            if self._failure is not None:
                raise self._failure
        except BaseException:  # Ctrl-C, or our reader has gone: end everything at once
            call_undisturbed(self.cancel)
            while ended < min(len(begun), len(receivers)):  # they may wait for room in the queue
                ended += self._results.get() is None
            raise
        finally:
            call_undisturbed(self._stop_feeds)
            for thread in begun:
                thread.join()

    def run_inline(self) -> None:
        """Does everything on the calling thread."""
        if self._stream is not None:
            for _ in self._send_rows(self._stream):
                self._write_ready(self._stream)
            self._stream.close_input()
        for stream in self.streams:
            self._write_ready(stream)
        self._wait_for_sinks()

    def check_complete(self) -> None:
        """Checks that every item has its results, where it gives exactly one; once all has ended.

        Raises:
            ModelflowError: results are missing.
        """
        for port in sorted(self._flow.scheduler.single_outputs):
            if (written := self._written[port]) < self._sent:
                raise ModelflowError(
                    f"output {port!r}: {written} results were written for {self._sent} items that "
                    "were sent; expected one for each; run it again, with --resume for what is "
                    "missing alone"
                )

    def _write_result(self, port: str, buffer: "Buffer") -> None:
        self._write(port, buffer)
        self._written[port] += 1

    def _write_ready(self, stream: "StreamIO") -> None:
        for port in stream.outputs:
            for buffer in _ready(stream, port):
                self._write_result(port, buffer)

    def _wait_for_sinks(self) -> None:
        for stream in self.streams:
            stream.wait()
        if self._sources:  # and for the sessions that they have opened
            self._flow.wait()

    def _thread(self, name: str, work: "Callable[[], None]") -> threading.Thread:
        return threading.Thread(target=self._guard, args=(work,), name=f"modelflow-cli/{name}")

    def _guard(self, work: "Callable[[], None]") -> None:
        """Does the work of a thread. Where that fails the run ends, which raises the exception."""
        try:
            work()
        except (Cancelled, StreamClosed):
            return  # the run is ending: whoever ended it says why
        except BaseException as error:  # noqa: BLE001 - raised by `run_threaded`
            self._failure = self._failure or error
            self.cancel()

    def cancel(self) -> None:
        """Gives up what is under way; from any thread."""
        for stream in self.streams:
            stream.cancel()

    def _stop_feeds(self) -> None:
        for feed in self._feeds:
            feed.stop()

    def _send(self) -> None:
        assert self._stream is not None  # only then is this thread started
        for _ in self._send_rows(self._stream):
            pass
        self._stream.close_input()

    def _send_rows(self, stream: "StreamIO") -> "Iterator[None]":
        """Sends item after item, and stops behind each."""
        for row in zip(*self._feeds, strict=False):  # feeds that repeat end at different places
            for feed, buffer in zip(self._feeds, row, strict=True):
                stream.send(feed.port, buffer)
            self._sent += 1
            yield

    def _receive(self, stream: "StreamIO", port: str) -> None:
        try:
            while True:
                self._results.put((port, stream.recv(port, errors="return")))
        except EndOfStream:
            return
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
            yield stream.recv(port, timeout=0, errors="return")
        except (TimeoutError, EndOfStream):
            return
