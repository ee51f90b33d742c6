"""What goes into a session: buffers, with or without waiting for room, and the end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.quantities import check_limits, check_seconds
from modelflow.stream_io.awaiting import wait_for_callback, within
from modelflow.stream_io.values import wrap_input

if TYPE_CHECKING:
    from modelflow.runtime.queues.backpressure import Backpressure
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.runtime.session.session import Session


class Sending:
    """The sending side of a `StreamIO`."""

    _scheduler: "Scheduler"
    _session: "Session"

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
            TypeError, ValueError: a time is no number.
        """
        if timeout is not None or deadline is not None:
            timeout, deadline = check_limits(timeout, deadline)
        scheduler = self._scheduler
        if scheduler.is_foreign:
            scheduler.check_process()
        buffers = (wrap_input(data, copy),)
        scheduler.submitter.send(self._session, port, buffers, timeout=timeout, deadline=deadline)
        if scheduler.options.is_inline:
            scheduler.pump()

    def try_send(
        self, port: str, data: Any, deadline: float | None = None, *, copy: bool = False
    ) -> None:
        """Does what `send` does, but never waits: it refuses where there is no room.

        Raises:
            QueueFullError: there is no room now; the error says why, and its ``retry_after`` in
                how many seconds there may be.
            StreamClosed, Cancelled, KeyError, TypeError, ValueError: as `send`.
        """
        if deadline is not None:
            deadline = check_seconds("deadline", deadline)
        self._scheduler.check_process()
        self._try_send(port, (wrap_input(data, copy),), deadline)
        self._scheduler.pump()

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
    ) -> None:
        """Does what `send` does without blocking the event loop."""
        if timeout is not None or deadline is not None:
            timeout, deadline = check_limits(timeout, deadline)
        self._scheduler.check_process()
        await self._asend(port, (wrap_input(data, copy),), timeout, deadline)
        self._scheduler.pump()

    async def _asend(
        self,
        port: str,
        buffers: Sequence[Buffer],
        timeout: float | None,
        deadline: float | None,
        *,
        is_last: bool = False,
    ) -> None:
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
