"""`StreamIO`: what goes in, what comes out, and both at once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.quantities import check_limits, check_seconds
from modelflow.stream_io.awaiting import within
from modelflow.stream_io.receiving import Receiving
from modelflow.stream_io.sending import Sending
from modelflow.stream_io.values import unwrap_output, wrap_input

if TYPE_CHECKING:
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.runtime.session.session import Session


class StreamIO(Sending, Receiving):
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
        self._reader = session.reader
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
    def single_outputs(self) -> frozenset[str]:
        """Those that give exactly one buffer for each that is sent."""
        return self._session.single_outputs

    @property
    def meta(self) -> dict[str, Any]:
        """The small values that belong to the stream as a whole; yours to fill before sending."""
        return self._session.meta

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The first errors that ended at a node without outputs, where no `recv` can see them."""
        return tuple(self._session.progress.errors)

    @property
    def error_count(self) -> int:
        """How many errors ended at nodes without outputs."""
        return self._session.progress.error_count

    def create_buffer(self, data: Any, **meta: Any) -> Buffer:
        """Returns a buffer of ``data`` (not copied) with ``meta``."""
        return Buffer(data, meta)

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
            wait: False: where there is no room now it is refused, as `try_send` does.

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
            if wait:
                await self._asend(port, buffers, None, deadline, is_last=True)
            else:
                self._try_send(port, buffers, deadline, is_last=True)
        if not session.progress.is_closed:
            self._scheduler.submitter.close(session)
        self._scheduler.pump()
        found: dict[str, list[Buffer]] = {}
        for output in self.outputs:
            found[output] = buffers_of = []
            while True:
                try:
                    buffers_of.append(await self.arecv_buffer(output))
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
