"""A run of a job: the threads that send the inputs, receive the results, and write them."""

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

# The most results that wait for the writing thread.
_QUEUE = 64


class Run:
    """A run of a flow with a sending thread, receiving threads and a writing thread."""

    def __init__(self, flow: "Flow", feeds: "Sequence[Feed]", write: "Write") -> None:
        """Opens the sessions of the graph's inputs and sources.

        Args:
            flow: A running flow.
            feeds: The buffers for each input.
            write: Called with the output and the buffer of each result, on the thread of this run.
        """
        self._flow = flow
        self._feeds = feeds
        self._write = write
        self._results = _Results(_QUEUE)
        self._sent = 0
        self._written: Counter[str] = Counter()
        self._failures: list[BaseException] = []  # the errors in other threads of this run
        self._sources = [flow.create_stream_io(source=name) for name in flow.scheduler.sources]
        self._stream = flow.create_stream_io() if feeds else None

    @property
    def streams(self) -> "list[StreamIO]":
        """The sessions of the graph's inputs and of its sources."""
        return [*self._sources, *([self._stream] if self._stream is not None else [])]

    def run_threaded(self) -> None:
        """Sends and receives in other threads; writes in the calling thread.

        Raises:
            BaseException: Writing has failed, or another thread.
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
            if self._failures:
                raise self._failures[0]
        except BaseException:  # Ctrl-C, or standard output was closed: end everything at once
            call_undisturbed(self.cancel)
            # Receivers may wait for room in the queue. Without these calls `join` would hang.
            while ended < min(len(begun), len(receivers)):
                ended += self._results.get() is None
            raise
        finally:
            call_undisturbed(self._stop_feeds)
            for thread in begun:
                thread.join()

    def run_inline(self) -> None:
        """Sends, receives and writes on the calling thread."""
        if self._stream is not None:
            for _ in self._send_rows(self._stream):
                self._write_ready(self._stream)
            self._stream.close_input()
        for stream in self.streams:
            self._write_ready(stream)
        self._wait_for_sinks()

    def check_complete(self) -> None:
        """Checks that every item has its results; call at the end of the flow.

        Only outputs with exactly one result for each item are checked.

        Raises:
            ModelflowError: Results are missing.
        """
        for port in sorted(self._flow.scheduler.single_outputs):
            if (written := self._written[port]) < self._sent:
                raise ModelflowError(
                    f"output {port!r}: {written} results were written for {self._sent} items that "
                    "were sent; expected one for each. Run it again; with --resume, only the "
                    "missing results are made"
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
        if self._sources:  # also wait for the sessions that the sources have opened
            self._flow.wait()

    def _thread(self, name: str, work: "Callable[[], None]") -> threading.Thread:
        return threading.Thread(target=self._guard, args=(work,), name=f"modelflow-cli/{name}")

    def _guard(self, work: "Callable[[], None]") -> None:
        """Runs the work of a thread; an error ends the run, which raises the error."""
        try:
            work()
        except (Cancelled, StreamClosed):
            return  # the run is ending for a reason that is reported elsewhere
        except BaseException as error:  # noqa: BLE001 - raised by `run_threaded`
            self._failures.append(error)
            self.cancel()

    def cancel(self) -> None:
        """Cancels all sessions; from any thread."""
        for stream in self.streams:
            stream.cancel()

    def _stop_feeds(self) -> None:
        for feed in self._feeds:
            feed.stop()

    def _send(self) -> None:
        assert self._stream is not None  # else this thread is not started
        for _ in self._send_rows(self._stream):
            pass
        self._stream.close_input()

    def _send_rows(self, stream: "StreamIO") -> "Iterator[None]":
        """Sends the items, and yields after each of them."""
        for row in zip(*self._feeds, strict=False):  # repeating feeds have different lengths
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
    """A bounded queue of results for the writing thread; None marks the end of a receiver.

    Not a `queue.Queue`: a Ctrl-C during its `get` can leave its lock in a broken state.
    """

    def __init__(self, most: int) -> None:
        self._room = threading.Semaphore(most)
        self._items: queue.SimpleQueue[tuple[str, Buffer] | None] = queue.SimpleQueue()

    def put(self, item: "tuple[str, Buffer] | None") -> None:
        """Adds a result, after a wait for room."""
        self._room.acquire()
        self._items.put(item)

    def get(self) -> "tuple[str, Buffer] | None":
        """Waits for the next result."""
        item = self._items.get()
        self._room.release()
        return item


def _ready(stream: "StreamIO", port: str) -> "Iterator[Buffer]":
    while True:
        try:
            yield stream.recv(port, timeout=0, errors="return")
        except (TimeoutError, EndOfStream):
            return
