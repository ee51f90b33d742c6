"""The entry of rows into a graph: backpressure, positions, refusals.

Example: the input "image" has a queue with ``queue_size=32``. Session "3" sends its fifth JPEG. If
32 rows are queued, `Submitter.send` waits, or refuses the row with ``queue_policy=reject``.
Otherwise the buffer becomes ``Segment(stream, range(4, 5), [[buffer]], ...)`` in the queue.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, QueueFullError, StreamClosed, did_you_mean
from modelflow.runtime.clock import Clock
from modelflow.runtime.entry.request_group import (
    EntryPort,
    SessionEntry,
    append_group,
    count_entering,
    count_fitting,
    count_room,
    free_rows,
    request_batch_segment,
)
from modelflow.runtime.locks import make_lock
from modelflow.runtime.queues.backpressure import (
    Backpressure,
    check_in_flight,
    check_inbox,
    check_unread,
)
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.request_batch import BatchMembers
from modelflow.runtime.session.segment import Segment
from modelflow.runtime.session.session import Session

if TYPE_CHECKING:
    from modelflow.runtime.stages.outbox import Receiver

logger = logging.getLogger("modelflow")

# A send that waits longer than this number of seconds logs a warning with the reason.
WARN_AFTER = 5.0


class Submitter:
    """The entry of a graph for the rows of every session. Safe from any thread.

    A row may enter under three conditions:

    - Fewer than ``unread_bound`` results of its session are unread.
    - Fewer than ``max_in_flight`` rows are inside the graph.
    - The first queues have room.

    One lock covers the checks and the append. So two senders cannot take the same last place, and
    after a time-out nothing was sent.

    A Ctrl-C between counting a row and appending it cancels the session. Otherwise the counts would
    be wrong, and a reader would wait for a row that never entered.
    """

    def __init__(
        self,
        ports: Mapping[str, EntryPort],
        in_flight: InFlight | None,
        unread_bound: int,
        clock: Clock,
        cancel: Callable[[Session], None],
    ) -> None:
        """Creates the submitter of a graph.

        Args:
            ports: The graph's inputs, by name.
            in_flight: The bound on the rows in the whole graph, or None.
            unread_bound: The number of unread results at which a session's new rows must wait.
            clock: The clock of every wait.
            cancel: Ends a session and drops its queued rows.
        """
        self._ports = ports
        self.names = frozenset(ports)
        """The names of the graph's inputs."""
        self.refusals = 0
        """The number of rows that were refused because of full queues."""
        self._in_flight = in_flight
        self._unread_bound = unread_bound
        self._clock = clock
        self._cancel = cancel
        self._lock = make_lock("entrance")

    def port(self, name: str) -> EntryPort:
        """Returns the graph input ``name``.

        Raises:
            KeyError: the graph has no such input; the message names all inputs.
        """
        port = self._ports.get(name)
        if port is None:
            names = ", ".join(self._ports) or "none"
            raise KeyError(
                f"the graph has no input {name!r}{did_you_mean(name, self._ports)} "
                f"(inputs: {names})"
            )
        return port

    def send(
        self,
        session: Session,
        name: str,
        buffers: Sequence[Buffer],
        *,
        is_last: bool = False,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Sends buffers to the graph input ``name``, and waits for room.

        Args:
            session: The session of the buffers.
            name: The graph input.
            buffers: The buffers, which enter together.
            is_last: True if the input ends after these buffers.
            timeout: The longest wait in seconds, or None for no limit.
            deadline: The seconds from now after which the results are worthless, or None.

        Raises:
            TimeoutError: there was no room in time; nothing was sent.
            QueueFullError: a queue is full, and a node has ``queue_policy=reject``.
            StreamClosed, Cancelled: the session has ended.
        """
        port = self._ports.get(name) or self.port(name)
        if deadline is not None:
            self._set_deadline(session, buffers, deadline)
        backpressure = self._try(session, port, buffers, is_last)
        if backpressure is not None:
            self._wait(session, port, backpressure, timeout, (buffers, is_last))

    def try_send(
        self,
        session: Session,
        name: str,
        buffers: Sequence[Buffer],
        *,
        is_last: bool = False,
        deadline: float | None = None,
    ) -> Backpressure | None:
        """Sends buffers if the queues have room, else returns the backpressure.

        Raises:
            QueueFullError, StreamClosed, Cancelled: as `send`.
        """
        port = self.port(name)
        if deadline is not None:
            self._set_deadline(session, buffers, deadline)
        backpressure = self._try(session, port, buffers, is_last)
        if backpressure is not None and port.is_rejecting and backpressure.is_rejectable:
            raise self.make_refusal(port, backpressure)
        return backpressure

    @property
    def free_rows(self) -> float:
        """The number of rows of new sessions that may enter now; at most 0 if the graph is full."""
        with self._lock:
            return free_rows(self._ports, self._in_flight)

    def count_fitting(
        self, columns: Iterable[Mapping[str, Sized]], *, is_first: bool = False
    ) -> tuple[int, Backpressure | None]:
        """Returns how many whole requests `enter_many` would send now, without sending them.

        Args:
            columns: For each request in order, its buffers by input. Read only as far as requests
                fit.
            is_first: True for requests of the first class, which enter full queues as well.

        Returns:
            The number of requests, and the backpressure of the next request, or None if all fit.
        """
        with self._lock:
            return count_fitting(
                columns, self._ports, self._in_flight, self._clock, is_first=is_first
            )

    def enter_many(
        self, entries: Sequence[SessionEntry], *, is_first: bool = False
    ) -> tuple[int, Backpressure | None]:
        """Sends whole requests in order until a queue is full, with one lock and one wake-up.

        A request whose session has ended already counts as sent.

        Args:
            entries: The requests.
            is_first: True for requests of the first class, which enter full queues as well.

        Returns:
            The number of requests sent, and the backpressure of the next request, or None if all
            were sent.
        """
        doubtful = entries[:0]
        try:
            with self._lock:
                columns = (entry.columns for entry in entries)
                count, backpressure = count_fitting(
                    columns, self._ports, self._in_flight, self._clock, is_first=is_first
                )
                doubtful = entries[:count]
                told = append_group(doubtful, self._ports)
                doubtful = entries[:0]
        finally:
            for torn in doubtful:
                self._cancel(torn.session)
        for receiver in told:
            receiver.call_due()
        return count, backpressure

    def enter_request_batch(
        self,
        session: Session,
        batch_members: BatchMembers,
        rows: Sequence[Buffer],
        sizes: Sequence[int],
        *,
        is_together: bool = False,
    ) -> tuple[int, Backpressure | None]:
        """Sends requests in order until a queue is full, as one session.

        A request enters whole if there is room for one of its rows.

        Args:
            session: The session of the request batch.
            batch_members: The receiver of the requests' results.
            rows: The rows of all requests, in order, for the graph's only input.
            sizes: The number of rows of each request, at least 1.
            is_together: True if all requests enter when the first queue has room for one row.

        Returns:
            The number of requests sent, and the backpressure of the next request, or None if all
            were sent.
        """
        request_batch = session.request_batch
        assert request_batch is not None  # the session was created for a request batch
        (port,) = self._ports.values()
        is_in_doubt, is_in = False, False
        told: Sequence[Receiver] = ()
        try:
            with self._lock:
                room, backpressure = count_room(
                    len(rows), port, self._in_flight, self._clock, is_together=is_together
                )
                is_in_doubt = True
                count, end = count_entering(sizes, room)
                request_batch.board(batch_members, sizes[:count])
                is_in = session.progress.enter_whole({port.name: end})
                if is_in and count:
                    told = port.append((request_batch_segment(session, rows[:end]),))
                    is_in_doubt = False
        finally:
            if is_in_doubt:  # or no request entered, and nothing would end the session
                self._cancel(session)
        for receiver in told:
            receiver.call_due()
        if not is_in:
            request_batch.fail(self._on_end(session))
        return count, backpressure if count < len(sizes) else None

    def close(self, session: Session) -> None:
        """Ends all open inputs of the session; rows that were sent are still processed."""
        is_in_doubt = False
        try:
            with self._lock:
                if session.progress.is_closed:
                    return
                is_in_doubt = True
                session.progress.close()
                due = [
                    receiver
                    for port in self._ports.values()
                    if port.name not in session.progress.ended
                    for receiver in port.append((Segment(session.stream, (), [[]], True, False),))
                ]
                is_in_doubt = False
        finally:
            if is_in_doubt:
                self._cancel(session)
        for receiver in due:
            receiver.call_due()
        self.wake(session)

    def wake(self, session: Session) -> None:
        """Wakes every `send` of the session to check again, because the session was closed."""
        session.progress.took()
        if self._in_flight is not None:
            self._in_flight.wake()
        for port in self._ports.values():
            for receiver, _ in port.route:
                if isinstance(receiver, Inbox):
                    receiver.wake_producers()

    def backpressure_for_source(
        self, session: Session, node: str, is_over: Callable[[], bool]
    ) -> Backpressure | None:
        """Returns the backpressure for the source ``node``, or None if new rows may enter.

        A wait ends when ``is_over()`` becomes true. The caller must call `wake` then.
        """
        return self._entry_backpressure(session, "source", node, is_over)

    def make_refusal(self, port: EntryPort, backpressure: Backpressure) -> QueueFullError:
        """Returns the error for a refused row, with the expected wait."""
        with self._lock:
            self.refusals += 1
        wait = port.expected_wait()
        hint = "" if wait is None else f"; expected wait {wait:.3g} s"
        message = f"input {port.name!r} refused a buffer: {backpressure.reason}{hint}"
        return QueueFullError(message, wait)

    def _set_deadline(self, session: Session, buffers: Sequence[Buffer], deadline: float) -> None:
        session.has_deadlines = True
        due = self._clock.now() + deadline
        for buffer in buffers:
            buffer._deadline = due

    # -- under the lock -------------------------------------------------------------------------

    def _try(
        self, session: Session, port: EntryPort, buffers: Sequence[Buffer], is_last: bool
    ) -> Backpressure | None:
        """Numbers and appends buffers under the lock, or returns the backpressure."""
        progress, has_errors, is_in_doubt = session.progress, False, False
        for buffer in buffers:
            has_errors = has_errors or buffer.error is not None
        try:
            with self._lock:
                backpressure = self._backpressure(session, port)
                if backpressure is not None:
                    return backpressure
                is_in_doubt = True
                first = progress.enter(port.name, len(buffers))
                if first is None:
                    raise self._on_end(session)
                if is_last:
                    progress.ended.add(port.name)
                    if len(progress.ended) == len(self._ports):
                        progress.close()
                rows = range(first, first + len(buffers))
                segment = Segment(session.stream, rows, [list(buffers)], is_last, has_errors)
                told = port.append((segment,), session.handoff)
                is_in_doubt = False
        finally:
            if is_in_doubt:
                self._cancel(session)
        for receiver in told:
            receiver.call_due()
        return None

    def _backpressure(self, session: Session, port: EntryPort) -> Backpressure | None:
        progress = session.progress
        if progress.is_closed or port.name in progress.ended:
            raise self._on_end(session)
        # With ``is_collected`` the caller takes all results at the end, so none counts as unread.
        is_read = progress.is_collected or progress.unread < self._unread_bound
        is_free = self._in_flight is None and is_read
        # Only for a new row. A row whose partners on other inputs have entered must not wait here.
        if not is_free and progress.has_entered(port.name) >= progress.sent:
            backpressure = self._entry_backpressure(session, "send to", port.name)
            if backpressure is not None:
                return backpressure
        for receiver, number in port.route:
            if isinstance(receiver, Inbox) and not receiver.has_room(number, session):
                return check_inbox(receiver, number, session)
        return None

    def _entry_backpressure(
        self, session: Session, what: str, name: str, is_over: Callable[[], bool] | None = None
    ) -> Backpressure | None:
        """Returns the backpressure for a new row; ``is_over`` defaults to "the input is closed"."""
        progress, in_flight = session.progress, self._in_flight
        if progress.unread >= self._unread_bound:
            is_over = is_over or (lambda: progress.is_closed)
            who = f"{what} {name!r}"
            return check_unread(session, who, self._unread_bound, self._clock, is_over)
        if in_flight is not None and in_flight.is_full:
            is_over = is_over or (lambda: progress.is_closed)
            return check_in_flight(in_flight, self._clock, is_over)
        return None

    # -- waiting --------------------------------------------------------------------------------

    def _wait(
        self,
        session: Session,
        port: EntryPort,
        backpressure: Backpressure | None,
        timeout: float | None,
        what: tuple[Sequence[Buffer], bool],
    ) -> None:
        start = self._clock.now()
        has_warned = False
        while backpressure is not None:
            if port.is_rejecting and backpressure.is_rejectable:
                raise self.make_refusal(port, backpressure)
            waited = self._clock.now() - start
            if timeout is not None and waited >= timeout:
                raise TimeoutError(
                    f"nothing was sent to {port.name!r} within {timeout:g} s: {backpressure.reason}"
                )
            if not has_warned and waited >= WARN_AFTER:
                has_warned = True
                logger.warning(
                    "send to %r has waited for %.0f s: %s", port.name, waited, backpressure.reason
                )
            until = [timeout] if timeout is not None else []
            until += [] if has_warned else [WARN_AFTER]
            backpressure.wait(min(until) - waited if until else None)
            backpressure = self._try(session, port, *what)

    def _on_end(self, session: Session) -> Exception:
        if session.is_cancelled:
            return session.failure or Cancelled(f"session {session.name!r} was cancelled")
        why = "the flow was stopped" if session.is_stopped else "its end was sent"
        message = (
            f"the input of session {session.name!r} is closed: {why}; nothing can be sent to it"
        )
        return StreamClosed(message)
