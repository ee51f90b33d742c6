"""`StreamIO`: what goes in, what comes out, and both at once."""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream, did_you_mean
from modelflow.quantities import check_limits, check_seconds
from modelflow.stream_io.awaiting import wait_for_callback, within
from modelflow.stream_io.values import check_errors, raise_error, unwrap_output, wrap_input

if TYPE_CHECKING:
    from modelflow.runtime.queues.backpressure import Backpressure
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.runtime.session.results import Results
    from modelflow.runtime.session.session import Session

logger = logging.getLogger("modelflow")

WARN_AFTER = 30.0
"""Seconds that `recv` waits before it says that nothing is on its way."""


class StreamIO:
    """A session of a running flow, from `Flow.create_stream_io`.

    Buffers sent are worked on in order, and come out in that order on each output. Safe to use from
    several threads; of two that send to the same port at once, either may be first.

    A session that is dropped without `close_input` is ended, with a warning in the log: what was
    sent is still worked on, its results are nobody's.
    """

    _is_owner = False  # a Ctrl-C may end `__init__`

    def __init__(
        self, scheduler: "Scheduler", session: "Session", *, is_owner: bool = True
    ) -> None:
        """Made by `Flow`; ``is_owner``: the session is dropped with this object."""
        self._scheduler = scheduler
        self._session = session
        self._reader = session.reader  # counts what is taken
        self._is_owner = is_owner

    def __del__(self) -> None:
        if self._is_owner and not self._session.progress.is_finished:
            self._scheduler.drop(self._session)

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
    def meta(self) -> dict[str, Any]:
        """The small values that belong to the stream as a whole; yours to fill before sending."""
        return self._session.meta

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The first errors that ended at a node without outputs, where no `recv` can see them."""
        return tuple(self._session.progress.errors)

    # -- in ---------------------------------------------------------------------------------------

    def send(
        self,
        port: str,
        data: Any,
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        copy: bool = False,
        wait: bool = True,
    ) -> None:
        """Puts one buffer in at the graph input ``port``.

        Waits while the queues behind the port are full, or while too many results of this session
        have not been received (1024 unless the flow says otherwise). Nothing is copied: an array
        must not be written to afterwards, unless ``copy`` is True.

        Args:
            port: The graph input.
            data: A `Buffer`, or any data.
            timeout: Longest wait in seconds; None: as long as it takes.
            deadline: Seconds from now after which nobody waits for the result: nothing is computed
                for it any more, and `recv` raises `DeadlineExceeded` in its place.
            copy: Copy the array first, for callers that reuse it.
            wait: False: where there is no room it is refused at once, whatever ``queue_policy``
                says.

        Raises:
            TimeoutError: there was no room in time; nothing was sent.
            QueueFullError: there is no room now, and ``wait`` or ``queue_policy`` says not to wait;
                its ``retry_after`` says in how many seconds there may be.
            StreamClosed: the input or the flow is closed.
            Cancelled: the session was cancelled.
            KeyError: the graph has no such input.
            TypeError, ValueError: a time is no number.
        """
        if timeout is not None or deadline is not None:
            timeout, deadline = check_limits(timeout, deadline)
        scheduler = self._scheduler
        if scheduler.is_foreign:
            scheduler.check_process()
        buffers = (wrap_input(data, copy),)
        if wait:
            scheduler.submitter.send(
                self._session, port, buffers, timeout=timeout, deadline=deadline
            )
        else:
            self._try_send(port, buffers, deadline)
        if scheduler.options.is_inline:
            scheduler.pump()

    def _try_send(
        self, port: str, buffers: Sequence[Buffer], deadline: float | None, *, is_last: bool = False
    ) -> None:
        submitter, session = self._scheduler.submitter, self._session
        backpressure = submitter.try_send(
            session, port, buffers, is_last=is_last, deadline=deadline
        )
        if backpressure is not None:
            raise submitter.make_refusal(submitter.port(port), backpressure)

    async def asend(
        self,
        port: str,
        data: Any,
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        copy: bool = False,
        wait: bool = True,
    ) -> None:
        """Does what `send` does without blocking the event loop."""
        if timeout is not None or deadline is not None:
            timeout, deadline = check_limits(timeout, deadline)
        self._scheduler.check_process()
        await self._asend(port, (wrap_input(data, copy),), timeout, deadline, wait=wait)
        self._scheduler.pump()

    async def _asend(
        self,
        port: str,
        buffers: Sequence[Buffer],
        timeout: float | None,
        deadline: float | None,
        *,
        is_last: bool = False,
        wait: bool = True,
    ) -> None:
        if not wait:
            self._try_send(port, buffers, deadline, is_last=is_last)
            return
        submitter, session = self._scheduler.submitter, self._session
        backpressure: Backpressure | None = None

        async def put() -> None:
            nonlocal backpressure
            while (
                backpressure := submitter.try_send(
                    session, port, buffers, is_last=is_last, deadline=deadline
                )
            ) is not None:
                await wait_for_callback(backpressure.on_gone, backpressure.forget)

        try:
            await within(timeout, put())
        except TimeoutError as error:
            if backpressure is None:
                raise
            raise TimeoutError(
                f"nothing was sent to {port!r} within {timeout:g} s: {backpressure.reason}"
            ) from error

    def close_input(self) -> None:
        """Ends the session's input; what was sent still comes out. May be called again."""
        self._scheduler.check_process()
        self._scheduler.submitter.close(self._session)
        self._scheduler.pump()

    # -- out --------------------------------------------------------------------------------------

    def recv(
        self,
        port: str | None = None,
        timeout: float | None = None,
        *,
        errors: Literal["raise", "return"] = "raise",
    ) -> Buffer:
        """Returns the next buffer of the graph output ``port`` (of the only one, if not named).

        Args:
            port: The graph output.
            timeout: Longest wait in seconds; None: as long as it takes; 0: do not wait.
            errors: ``raise``: what a buffer is in error for is raised; ``return``: the buffer is
                returned, with its ``error``.

        Raises:
            FlowUnitError: this buffer failed in a unit; the next `recv` goes on behind it.
            DeadlineExceeded: its deadline passed.
            EndOfStream: the input was closed and everything has come out.
            TimeoutError: nothing came in time.
            Cancelled, StreamClosed: the session was cancelled, the flow was stopped or failed.
            KeyError: the graph has no such output.
            TypeError, ValueError: ``timeout`` is no number, or ``errors`` has another value.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        if errors != "raise":
            check_errors(errors)
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
        if buffer.error is not None and errors == "raise":
            raise_error(buffer)
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

    async def arecv(
        self,
        port: str | None = None,
        timeout: float | None = None,
        *,
        errors: Literal["raise", "return"] = "raise",
    ) -> Buffer:
        """Does what `recv` does without blocking the event loop."""
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        if errors != "raise":
            check_errors(errors)
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
        if buffer.error is not None and errors == "raise":
            raise_error(buffer)
        return unwrap_output(buffer)

    def __iter__(self) -> Iterator[Buffer]:
        """Iterates over `recv` of the only output until the end of the stream."""
        while True:
            try:
                yield self.recv()
            except EndOfStream:
                return

    async def __aiter__(self) -> AsyncIterator[Buffer]:
        """Iterates over `arecv` of the only output until the end of the stream."""
        while True:
            try:
                yield await self.arecv()
            except EndOfStream:
                return

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

    # -- the whole ------------------------------------------------------------------------------

    def exchange(
        self,
        inputs: Mapping[str, Sequence[Any]],
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        wait: bool = True,
    ) -> dict[str, list[Buffer]]:
        """Sends all values of every input, ends the input, and returns everything that comes out.

        For a session that nothing was sent to yet; `Flow.infer` is this for one value on a new one.

        Args:
            inputs: The values for each input of the graph.
            timeout: Longest wait in seconds for the whole; then the session is cancelled.
            deadline: As in `send`, for each value. It does not end the wait for a unit that is at
                work on one: that is what ``timeout`` is for.
            wait: False: as in `send`.

        Returns:
            For each output its buffers, some perhaps in error.

        Raises:
            TimeoutError: the time is over.
            TypeError, ValueError: a time is no number.
            QueueFullError, StreamClosed, Cancelled, KeyError: as `send`.
        """
        self._scheduler.check_process()
        scheduler, session = self._scheduler, self._session
        clock, submitter = scheduler.options.clock, scheduler.submitter
        is_limited = timeout is not None or deadline is not None
        end = handoff = None
        answers: dict[str, list[Buffer]] = {}
        try:
            if is_limited:
                timeout, deadline = check_limits(timeout, deadline)
                end = None if timeout is None else clock.now() + timeout
            session.progress.is_collected = True
            if wait and not is_limited:
                handoff = scheduler.caller_of(session)
            else:  # a unit that does not come back would keep this thread, whatever its time
                scheduler.check_outside()
            for port, values in inputs.items():
                buffers = [wrap_input(value) for value in values]
                if wait:
                    left = None if end is None else max(0.0, end - clock.now())
                    submitter.send(
                        session, port, buffers, is_last=True, timeout=left, deadline=deadline
                    )
                    if handoff is not None:
                        handoff.go_on()
                else:
                    self._try_send(port, buffers, deadline, is_last=True)
            if not session.progress.is_closed:  # not every input was given values
                submitter.close(session)
            scheduler.pump()
            for output, results in session.results.items():
                left = None if end is None else max(0.0, end - clock.now())
                answers[output] = list(map(unwrap_output, results.get_all(clock, left)))
        except BaseException:  # also Ctrl-C: nobody waits for the rest
            if handoff is not None:
                handoff.give_back()
            scheduler.abandon(session)
            raise
        return answers

    async def aexchange(
        self,
        inputs: Mapping[str, Sequence[Any]],
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        wait: bool = True,
    ) -> dict[str, list[Buffer]]:
        """Does what `exchange` does without blocking the event loop."""
        self._scheduler.check_process()
        try:
            if timeout is not None or deadline is not None:
                timeout, deadline = check_limits(timeout, deadline)
            self._scheduler.check_outside()
            return await within(timeout, self._aexchange(inputs, deadline, wait))
        except BaseException:  # also a cancelled task: nobody waits for the rest
            self.cancel()
            raise

    async def _aexchange(
        self, inputs: Mapping[str, Sequence[Any]], deadline: float | None, wait: bool
    ) -> dict[str, list[Buffer]]:
        session = self._session
        session.progress.is_collected = True
        for port, values in inputs.items():
            buffers = [wrap_input(value) for value in values]
            await self._asend(port, buffers, None, deadline, is_last=True, wait=wait)
        if not session.progress.is_closed:
            self._scheduler.submitter.close(session)
        self._scheduler.pump()
        found: dict[str, list[Buffer]] = {}
        for output in self.outputs:
            found[output] = buffers_of = []
            while True:
                try:
                    buffers_of.append(await self.arecv(output, errors="return"))
                except EndOfStream:
                    break
        return found

    def cancel(self) -> None:
        """Ends the session at once: what is queued for it is dropped, `recv` raises `Cancelled`.

        Wakes every `send` and `recv` that waits for it, on any thread.
        """
        if not self._scheduler.is_foreign:
            self._scheduler.cancel(self._session)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the session's end has passed everywhere, also at nodes without outputs.

        Returns:
            False if ``timeout`` seconds passed before.

        Raises:
            TypeError, ValueError: ``timeout`` is no number.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        self._scheduler.check_process()
        return self._scheduler.wait_for(self._session, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancels the session if it is not over."""
        self.cancel()
