"""What comes out of a session: buffers, errors, the end."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream, did_you_mean
from modelflow.quantities import check_seconds
from modelflow.stream_io.awaiting import wait_for_callback, within
from modelflow.stream_io.values import raise_error, unwrap_output

if TYPE_CHECKING:
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.runtime.session.progress import Progress
    from modelflow.runtime.session.results import Results
    from modelflow.runtime.session.session import Session

logger = logging.getLogger("modelflow")

WARN_AFTER = 30.0
"""Seconds that `recv` waits before it says that nothing is on its way."""


class Receiving:
    """The receiving side of a `StreamIO`."""

    _scheduler: "Scheduler"
    _session: "Session"
    _reader: "Progress"
    """Counts what is taken; see `Session.reader`."""

    def recv(self, port: str | None = None, timeout: float | None = None) -> Buffer:
        """Returns the next buffer of the graph output ``port`` (of the only one, if not named).

        Args:
            port: The graph output.
            timeout: Longest wait in seconds; None: as long as it takes.

        Raises:
            FlowUnitError: this buffer failed in a unit; the next `recv` goes on behind it.
            DeadlineExceeded: its deadline passed.
            EndOfStream: the input was closed and everything has come out.
            TimeoutError: nothing came in time.
            Cancelled, StreamClosed: the session was cancelled, the flow was stopped or failed.
            KeyError: the graph has no such output.
            TypeError, ValueError: ``timeout`` is no number.
        """
        buffer = self.recv_buffer(port, timeout)
        if buffer.error is not None:
            raise_error(buffer)
        return buffer

    def recv_buffer(self, port: str | None = None, timeout: float | None = None) -> Buffer:
        """Does what `recv` does, but returns a buffer in error instead of raising it."""
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        results, scheduler = self._results(port), self._scheduler
        if scheduler.is_foreign or scheduler.options.is_inline:
            timeout = self._pump(timeout)
        # For long where only the end of the input, which nobody sends, could bring anything?
        session = self._session
        is_open = timeout is None and not session.origin and not self._reader.is_closed
        clock = scheduler.options.clock
        try:
            buffer = results.get(clock, WARN_AFTER if is_open else timeout)
        except TimeoutError:
            if not is_open:
                raise
            self._warn(port)
            buffer = results.get(clock, None)
        self._reader.took()
        return unwrap_output(buffer) if buffer._is_exclusive else buffer

    def _warn(self, port: str | None) -> None:
        """Says that a `recv` waits for nothing but the end of the input."""
        reader = self._reader
        if reader.is_counted and not reader.is_closed and not reader.unread:
            text = (
                "session %r: recv%s has waited for %.0f s, everything that was sent has come out, "
                "and the input is open; close_input() ends it"
            )
            logger.warning(text, self._session.name, f" from {port!r}" if port else "", WARN_AFTER)

    def _pump(self, timeout: float | None) -> float | None:
        """Runs what is ready, in an inline flow; returns how long to wait for a result then."""
        self._scheduler.check_process()
        if not self._scheduler.options.is_inline:
            return timeout
        self._scheduler.pump()
        return 0.0  # nobody else runs anything: what is not there now never comes

    def ready_count(self, port: str | None = None) -> int:
        """Returns how many buffers of an output wait to be received."""
        return len(self._results(port))

    def is_ready(self, port: str | None = None) -> bool:
        """Tells whether `recv` would not wait: it has a buffer, or raises."""
        return self._results(port).is_ready

    def on_ready(self, port: str | None, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, when `recv` would not wait (perhaps at once).

        From whichever thread brings the buffer, with no lock held; what it raises is logged. It
        holds up that thread, so it must not wait.
        """
        self._results(port).on_ready(callback)

    def wait_ready(self, port: str | None = None, timeout: float | None = None) -> None:
        """Waits until `recv` would not.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
            TypeError, ValueError: ``timeout`` is no number.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        results, clock = self._results(port), self._scheduler.options.clock
        results.wait_ready(clock, self._pump(timeout))

    async def arecv(self, port: str | None = None, timeout: float | None = None) -> Buffer:
        """Does what `recv` does without blocking the event loop."""
        buffer = await self.arecv_buffer(port, timeout)
        if buffer.error is not None:
            raise_error(buffer)
        return buffer

    async def arecv_buffer(self, port: str | None = None, timeout: float | None = None) -> Buffer:
        """Does what `recv_buffer` does without blocking the event loop."""
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        results, timeout = self._results(port), self._pump(timeout)

        async def get() -> Buffer:
            while (buffer := results.get_nowait()) is None:
                if timeout == 0:
                    return results.get(self._scheduler.options.clock, timeout)  # raises
                await wait_for_callback(results.on_ready, results.forget)
            return buffer

        try:
            buffer = await within(timeout, get())
        except TimeoutError as error:
            raise TimeoutError(f"no result within {timeout:.3g} s") from error
        self._reader.took()
        return unwrap_output(buffer)

    def stream(self, port: str | None = None) -> Iterator[Buffer]:
        """Iterates over `recv` of one output until the end of the stream."""
        while True:
            try:
                yield self.recv(port)
            except EndOfStream:
                return

    def __iter__(self) -> Iterator[Buffer]:
        return self.stream()

    async def astream(self, port: str | None = None) -> AsyncIterator[Buffer]:
        """Iterates over `arecv` of one output until the end of the stream."""
        while True:
            try:
                yield await self.arecv(port)
            except EndOfStream:
                return

    def __aiter__(self) -> AsyncIterator[Buffer]:
        return self.astream()

    def _results(self, port: str | None) -> "Results":
        results = self._session.results
        if port is None and len(results) == 1:
            return next(iter(results.values()))
        if port is None or port not in results:
            names = ", ".join(map(repr, results)) or "none"
            what = "name the output to receive from" if port is None else f"no output {port!r}"
            near = "" if port is None else did_you_mean(port, results)
            hint = "" if results else "; nothing comes out: wait() waits for the end"
            raise KeyError(f"{what}{near} (outputs: {names}){hint}")
        return results[port]
