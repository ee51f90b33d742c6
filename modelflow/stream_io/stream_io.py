"""The class `StreamIO`: sends to a session, receives from a session, or both in one call."""

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
"""Seconds after which `recv` warns that the session has no data in flight."""


class StreamIO:
    """A session of a running flow, from `Flow.create_stream_io`.

    Each output returns its buffers in the order in which you sent the inputs. Safe to use from
    several threads. If two threads send to the same port at once, either buffer may be first.

    If you drop a session without `close_input`, its input is closed, with a warning in the log.
    Units still process the buffers that were sent, and the results are dropped.
    """

    _is_owner = False  # a Ctrl-C may interrupt `__init__`, and `__del__` still runs

    def __init__(
        self, scheduler: "Scheduler", session: "Session", *, is_owner: bool = True
    ) -> None:
        """Wraps a session; only `Flow` calls this.

        Args:
            scheduler: The scheduler of the flow.
            session: The session to send to and receive from.
            is_owner: True to drop the session when this object is deleted.
        """
        self._scheduler = scheduler
        self._session = session
        self._reader = session.reader  # counts the results that were received
        self._is_owner = is_owner
        # The results by output, and under None those of the only output.
        self._by_port: dict[str | None, Results] = dict(session.results.items())
        if len(session.results) == 1:
            (self._by_port[None],) = session.results.values()

    def __del__(self) -> None:
        if self._is_owner and not self._session.progress.is_finished:
            self._scheduler.drop(self._session)

    @property
    def context(self) -> dict[str, Any]:
        """The dict that the units of this session share; you may fill the dict before sending."""
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
        """The small values of the whole stream; you may fill the dict before sending."""
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
        """Sends a buffer to the graph input ``port``.

        Waits while the queues after the port are full. Also waits while too many results of this
        session have not been received (1024, see ``results_bound`` of `Flow`). The data is not
        copied: do not write to an array after sending it, unless ``copy`` is True.

        Args:
            port: The graph input.
            data: A `Buffer`, or any data.
            timeout: The longest wait in seconds, or None for no limit.
            deadline: Seconds from now after which the result is of no use. Units do not start work
                on the buffer after that time, and `recv` raises `DeadlineExceeded` instead of
                returning a result.
            copy: True to copy the array first, for callers that reuse the array.
            wait: True to wait while the queues are full. False to refuse the buffer immediately in
                that case, even if ``queue_policy`` is ``block``.

        Raises:
            TimeoutError: The queues had no room in time. Nothing was sent.
            QueueFullError: The queues are full, and ``wait`` or ``queue_policy`` forbids a wait.
                Its ``retry_after`` is the expected time in seconds until there is room.
            StreamClosed: The input or the flow is closed.
            Cancelled: The session was cancelled.
            KeyError: The graph has no such input.
            TypeError, ValueError: A time is no number.
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
        """Sends a buffer as `send` does, without blocking the event loop."""
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
        """Closes the input of the session.

        Results of earlier buffers still arrive. May be called again.
        """
        scheduler = self._scheduler
        if scheduler.is_foreign:
            scheduler.check_process()
        scheduler.submitter.close(self._session)
        scheduler.pump()

    # -- out --------------------------------------------------------------------------------------

    def recv(
        self,
        port: str | None = None,
        timeout: float | None = None,
        *,
        errors: Literal["raise", "return"] = "raise",
    ) -> Buffer:
        """Returns the next buffer of the graph output ``port``.

        Args:
            port: The graph output. May be omitted if the session has only one output.
            timeout: The longest wait in seconds. None for no limit, 0 for no wait.
            errors: ``raise`` to raise the error of a buffer, ``return`` to return the buffer with
                its ``error``.

        Raises:
            FlowUnitError: This buffer failed in a unit. The next `recv` returns the next buffer.
            DeadlineExceeded: The deadline of this buffer passed.
            EndOfStream: The input was closed, and all results were received.
            TimeoutError: No buffer arrived in time.
            Cancelled, StreamClosed: The session was cancelled, or the flow was stopped or failed.
            KeyError: The graph has no such output.
            TypeError, ValueError: ``timeout`` is no number, or ``errors`` has another value.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        if errors != "raise":
            check_errors(errors)
        results, scheduler = self._by_port.get(port), self._scheduler
        if results is None:
            results = self._results(port)
        if scheduler.is_foreign or scheduler.options.is_inline:
            timeout = self._pump(timeout)
        # Without a limit, this wait may never end if the caller forgot to close the input. The
        # first `get` is therefore limited, and followed by a warning.
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
        return buffer if buffer._own is None else unwrap_output(buffer)

    def _warn(self, port: str | None) -> None:
        """Warns that a `recv` waits only for the end of the input."""
        reader = self._reader
        if reader.is_counted and not reader.is_closed and not reader.unread:
            text = (
                "session %r: recv%s has waited for %.0f s, all results were received, and the "
                "input is still open; call close_input() to end the stream"
            )
            logger.warning(text, self._session.name, f" from {port!r}" if port else "", WARN_AFTER)

    def _pump(self, timeout: float | None) -> float | None:
        """Runs the ready batches of an inline flow, and returns the time to wait for a result."""
        self._scheduler.check_process()
        if not self._scheduler.options.is_inline:
            return timeout
        self._scheduler.pump()
        return 0.0  # no other thread runs units, so a result that is not ready now never arrives

    async def arecv(
        self,
        port: str | None = None,
        timeout: float | None = None,
        *,
        errors: Literal["raise", "return"] = "raise",
    ) -> Buffer:
        """Returns the next buffer as `recv` does, without blocking the event loop."""
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
        """Yields the results of `recv` for the only output until the end of the stream."""
        while True:
            try:
                yield self.recv()
            except EndOfStream:
                return

    async def __aiter__(self) -> AsyncIterator[Buffer]:
        """Yields the results of `arecv` for the only output until the end of the stream."""
        while True:
            try:
                yield await self.arecv()
            except EndOfStream:
                return

    def _results(self, port: str | None) -> "Results":
        found = self._by_port.get(port)
        if found is None:
            results = self._session.results
            names = ", ".join(map(repr, results)) or "none"
            what = "name the output to receive from" if port is None else f"no output {port!r}"
            near = "" if port is None else did_you_mean(port, results)
            hint = "" if results else "; nothing comes out: wait() waits for the end"
            raise KeyError(f"{what}{near} (outputs: {names}){hint}")
        return found

    # -- the whole ------------------------------------------------------------------------------

    def exchange(
        self,
        inputs: Mapping[str, Sequence[Any]],
        timeout: float | None = None,
        deadline: float | None = None,
        *,
        wait: bool = True,
    ) -> dict[str, list[Buffer]]:
        """Sends all values of every input, closes the input, and returns all results.

        Use it on a session to which nothing was sent. `Flow.infer` does the same with one value and
        a new session.

        Args:
            inputs: The values for each input of the graph.
            timeout: The longest wait in seconds for the whole call. The session is cancelled after
                that.
            deadline: As in `send`, for each value. It does not end the wait for a unit that is
                already working on a value; use ``timeout`` for that.
            wait: As in `send`.

        Returns:
            The buffers of each output; buffers may be in error.

        Raises:
            TimeoutError: The results were not ready in time.
            TypeError, ValueError: A time is no number.
            QueueFullError, StreamClosed, Cancelled, KeyError: As `send`.
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
            else:
                # This thread must not run units: a unit that never returns would block it past its
                # limit.
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
            if not session.progress.is_closed:  # some inputs have no values
                submitter.close(session)
            scheduler.pump()
            for output, results in session.results.items():
                left = None if end is None else max(0.0, end - clock.now())
                answers[output] = list(map(unwrap_output, results.get_all(clock, left)))
        except BaseException:  # also Ctrl-C: no caller waits for the rest
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
        """Sends all values and returns all results without blocking the event loop."""
        self._scheduler.check_process()
        try:
            if timeout is not None or deadline is not None:
                timeout, deadline = check_limits(timeout, deadline)
            self._scheduler.check_outside()
            return await within(timeout, self._aexchange(inputs, deadline, wait))
        except BaseException:  # also a cancelled task: no caller waits for the rest
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
        """Cancels the session, drops its queued data, and makes `recv` raise `Cancelled`.

        Wakes every `send` and `recv` of this session that waits, on any thread.
        """
        if not self._scheduler.is_foreign:
            self._scheduler.cancel(self._session)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the end of the session has passed every node, also nodes without outputs.

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
        """Cancels the session unless the session has ended."""
        self.cancel()
