"""One session as its user holds it: send, receive, end, cancel."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, EndOfStream, did_you_mean
from modelflow.runtime.call import freeze
from modelflow.runtime.results import Results
from modelflow.runtime.scheduler import Scheduler
from modelflow.runtime.session import Session

__all__ = ["StreamIO"]


class StreamIO:
    """A session of a running flow, from `Flow.create_stream_io`.

    Buffers sent are worked on in order, and come out in that order on each output. Safe to use from
    several threads; two that send to the same port do so in the order of their calls' luck.
    """

    def __init__(self, scheduler: Scheduler, session: Session) -> None:
        """Made by `Flow`."""
        self._scheduler = scheduler
        self._session = session

    @property
    def context(self) -> dict[str, Any]:
        """The dict that the units of this session share; yours to fill before sending."""
        return self._session.context

    @property
    def name(self) -> str:
        """The session's name in errors and logs."""
        return self._session.name

    @property
    def outputs(self) -> tuple[str, ...]:
        """The graph outputs that this session's data can reach."""
        return tuple(self._session.results)

    @property
    def single_outputs(self) -> frozenset[str]:
        """Those that give exactly one buffer for each that is sent."""
        return self._session.single_outputs

    @property
    def meta(self) -> dict[str, Any]:
        """The small values that belong to the stream as a whole; yours to fill before sending."""
        return self._session.stream.meta

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The first errors that ended at a node without outputs, where no `recv` can see them."""
        return tuple(self._session.errors)

    @property
    def error_count(self) -> int:
        """How many errors ended at nodes without outputs."""
        return self._session.error_count

    def create_buffer(self, data: Any, **meta: Any) -> Buffer:
        """Returns a buffer of ``data`` (not copied) with ``meta``."""
        return Buffer(data, meta)

    # -- sending --------------------------------------------------------------------------------

    def send(
        self,
        port: str,
        data: Any,
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        copy: bool = False,
    ) -> None:
        """Puts one buffer in at the graph input ``port``.

        Waits while the queues behind the port are full, or while too many results of this session
        have not been received (1024 unless the flow says otherwise). Nothing is copied: an array
        must not be written to afterwards, unless ``copy`` is True.

        Args:
            port: The graph input.
            data: A `Buffer`, or any data.
            timeout: Longest wait in seconds; None: as long as it takes; 0: do not wait.
            deadline: Seconds from now after which nobody waits for the result: nothing is computed
                for it any more, and `recv` raises `DeadlineExceeded` in its place.
            copy: Copy the array first, for callers that reuse it.

        Raises:
            TimeoutError: there was no room in time; nothing was sent.
            QueueFullError: no room, and the node behind the port says ``queue_policy=reject``.
            StreamClosed: the input or the flow is closed.
            Cancelled: the session was cancelled.
            KeyError: the graph has no such input.
        """
        buffer = _buffer(data, copy)
        entrance = self._scheduler.entrance
        entrance.send(self._session, port, (buffer,), timeout=timeout, deadline=deadline)
        self._scheduler.pump()

    async def asend(self, port: str, data: Any, deadline: float | None = None) -> None:
        """Does what `send` does without blocking the event loop; bound it by `asyncio.timeout`."""
        buffer, entrance = _buffer(data, False), self._scheduler.entrance
        while True:
            blocker = entrance.send_nowait(self._session, port, (buffer,), deadline)
            if blocker is None:
                break
            await _signalled(blocker.on_gone)
        self._scheduler.pump()

    def close_input(self) -> None:
        """Ends the session's input; what was sent still comes out. May be called again."""
        self._scheduler.entrance.close(self._session)
        self._scheduler.pump()

    def cancel(self) -> None:
        """Ends the session at once: what is queued for it is dropped, `recv` raises `Cancelled`."""
        self._scheduler.cancel(self._session)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the session's end has passed everywhere, also at nodes without outputs.

        Returns:
            False if ``timeout`` seconds passed before.
        """
        return self._scheduler.wait_for(self._session, timeout)

    # -- receiving ------------------------------------------------------------------------------

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
        """
        buffer = self.recv_buffer(port, timeout)
        if buffer.error is not None:
            _raise(buffer)
        return buffer

    def recv_buffer(self, port: str | None = None, timeout: float | None = None) -> Buffer:
        """Does what `recv` does, but returns a buffer in error instead of raising it."""
        results = self._results(port)
        options = self._scheduler.options
        if options.is_inline:  # nobody else runs anything: what is not there now never comes
            self._scheduler.pump()
            timeout = 0
        buffer = results.get(options.clock, timeout)
        self._session.took()
        return _yours(buffer)

    def ready(self, port: str | None = None) -> int:
        """Returns how many buffers of an output wait to be received."""
        return len(self._results(port))

    def is_ready(self, port: str | None = None) -> bool:
        """Tells whether `recv` would not wait: it has a buffer, or raises."""
        return self._results(port).is_ready

    def on_ready(self, port: str | None, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, when `recv` would not wait (perhaps at once).

        From whichever thread brings the buffer; the callback must not wait.
        """
        self._results(port).on_ready(callback)

    def wait_ready(self, port: str | None = None, timeout: float | None = None) -> None:
        """Waits until `recv` would not.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
        """
        self._results(port).wait_ready(self._scheduler.options.clock, timeout)

    async def arecv(self, port: str | None = None) -> Buffer:
        """Does what `recv` does without blocking the event loop; bound it by `asyncio.timeout`."""
        results = self._results(port)
        while True:
            buffer = results.get_nowait()
            if buffer is not None:
                break
            await _signalled(results.on_ready)
        self._session.took()
        if buffer.error is not None:
            _raise(buffer)
        return _yours(buffer)

    def exchange(self, inputs: Mapping[str, Any], timeout: float | None = None) -> Any:
        """Sends one value to every input, ends the input, and returns the answer.

        For a session that nothing was sent to yet; `Flow.infer` is this on a new one.

        Args:
            inputs: A value for each input of the graph.
            timeout: Longest wait in seconds for the whole; then the session is cancelled.

        Returns:
            See `Flow.infer`.

        Raises:
            FlowUnitError, DeadlineExceeded: the answer is in error; of several, the first that is.
        """
        answers: dict[str, Buffer | list[Buffer]] = {}
        found = self.exchange_many({port: (value,) for port, value in inputs.items()}, timeout)
        for output, buffers in found.items():
            for buffer in buffers:
                if buffer.error is not None:
                    _raise(buffer)
            is_single = output in self._session.single_outputs
            answers[output] = buffers[0] if is_single else buffers
        return next(iter(answers.values())) if len(answers) == 1 else answers

    async def aexchanged(self) -> Any:
        """Returns what `exchange` does, of a session whose input has been sent and closed."""
        answers: dict[str, Buffer | list[Buffer]] = {}
        for output in self.outputs:
            buffers = [buffer async for buffer in self.astream(output)]
            is_single = output in self._session.single_outputs
            answers[output] = buffers[0] if is_single else buffers
        return next(iter(answers.values())) if len(answers) == 1 else answers

    def exchange_many(
        self, inputs: Mapping[str, Sequence[Any]], timeout: float | None = None
    ) -> dict[str, list[Buffer]]:
        """Sends all values of every input, ends the input, and returns everything that comes out.

        For a session that nothing was sent to yet.

        Args:
            inputs: The values for each input of the graph.
            timeout: Longest wait in seconds for the whole; then the session is cancelled.

        Returns:
            For each output its buffers, some perhaps in error.
        """
        clock, session = self._scheduler.options.clock, self._session
        end = None if timeout is None else clock.now() + timeout
        answers: dict[str, list[Buffer]] = {}
        try:
            for port, values in inputs.items():
                buffers = [_buffer(value, False) for value in values]
                left = None if end is None else max(0.0, end - clock.now())
                self._scheduler.entrance.send(session, port, buffers, is_last=True, timeout=left)
            session.is_closed = True  # each input has had its end with its last value
            self._scheduler.pump()
            for output, results in session.results.items():
                left = None if end is None else max(0.0, end - clock.now())
                answers[output] = list(map(_yours, results.get_all(clock, left)))
        except BaseException:  # also Ctrl-C: nobody waits for the rest
            self.cancel()
            raise
        return answers

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancels the session if it is not over."""
        self.cancel()

    def _results(self, port: str | None) -> Results:
        results = self._session.results
        if port is None and len(results) == 1:
            return next(iter(results.values()))
        if port is None or port not in results:
            names = ", ".join(map(repr, results)) or "none"
            what = "name the output to receive from" if port is None else f"no output {port!r}"
            near = "" if port is None else did_you_mean(port, results)
            message = f"{what}{near} (outputs: {names})"
            raise KeyError(message)
        return results[port]


def _buffer(data: Any, copy: bool) -> Buffer:
    buffer = data if isinstance(data, Buffer) else Buffer(data)
    array = buffer.data
    if type(array) is np.ndarray and array.flags.writeable:
        # The caller's own array stays writable; units see a read-only view of it.
        sent = Buffer(array.copy() if copy else array.view())
        sent.inherit_meta(buffer)
        freeze(sent, is_single=False)
        return sent
    return buffer


def _yours(buffer: Buffer) -> Buffer:
    """Makes the result's array writable again where nobody else can see it."""
    if buffer._is_exclusive:
        buffer.data.flags.writeable = True
    return buffer


def _raise(buffer: Buffer) -> None:
    error = buffer.error
    assert error is not None  # the caller has looked
    if isinstance(error.__cause__, DeadlineExceeded):
        raise DeadlineExceeded(str(error)) from error
    raise error


async def _signalled(register: Callable[[Callable[[], None]], None]) -> None:
    """Waits until the callback given to ``register`` is called, from whichever thread."""
    import asyncio  # a third of the time of importing Flow: only for those who use it

    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def signal() -> None:
        if not loop.is_closed():  # a loop that ended has nobody who waits
            loop.call_soon_threadsafe(resolve)

    register(signal)
    await future
