"""How rows enter the graph: back-pressure, positions, refusals.

Session "3" sends its fifth JPEG to input "image" of a graph whose first queue holds 32: if 32 are
queued there, `Submitter.send` waits (or refuses, if the node says ``queue_policy=reject``); else
the buffer becomes ``Segment(stream, range(4, 5), [[buffer]], ...)`` and is appended to that queue.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized

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
from modelflow.runtime.stages.outbox import Receiver

logger = logging.getLogger("modelflow")

# Seconds after which whoever waits to put data in says in a warning what it waits for.
WARN_AFTER = 5.0


class Submitter:
    """The way into the graph for every session. Safe from any thread.

    A row enters when the session's reader is not too far behind (``unread_bound``), the graph
    as a whole admits it (``max_in_flight``), and the first queues have room. All of that is looked
    at, and the row put in, under one lock: two senders cannot take the same last place, and a
    time-out means that nothing was sent. A Ctrl-C between the count of a row and its queue cancels
    the session: nobody could say any more what has entered, and nobody is to wait for it.
    """

    def __init__(
        self,
        ports: Mapping[str, EntryPort],
        in_flight: InFlight | None,
        unread_bound: int,
        clock: Clock,
        cancel: Callable[[Session], None],
    ) -> None:
        """Makes the submitter of one graph.

        Args:
            ports: The graph's inputs, by name.
            in_flight: The bound on the rows in the whole graph; None: there is none.
            unread_bound: Rows of a session that its reader may be behind.
            clock: What every wait goes by.
            cancel: Ends a session and drops what is queued for it.
        """
        self._ports = ports
        self.names = frozenset(ports)
        """The graph's inputs."""
        self.refusals = 0
        """How often a row was refused, because there was no room for it."""
        self._in_flight = in_flight
        self._unread_bound = unread_bound
        self._clock = clock
        self._cancel = cancel
        self._lock = make_lock("entrance")

    def port(self, name: str) -> EntryPort:
        """Returns the graph input ``name``.

        Raises:
            KeyError: there is none; the message names those that are.
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
        """Puts buffers in at the graph input ``name``, waiting for room.

        Args:
            session: Whose they are.
            name: The graph input.
            buffers: What to put in, together.
            is_last: The port ends with them.
            timeout: Longest wait in seconds; None: as long as it takes.
            deadline: Seconds from now after which nobody waits for the results; None: none.

        Raises:
            TimeoutError: there was no room in time; nothing was sent.
            QueueFullError: there is no room and the node says ``queue_policy=reject``.
            StreamClosed, Cancelled: the session has ended.
        """
        port = self._ports.get(name) or self.port(name)
        due = None if deadline is None else self._clock.now() + deadline
        backpressure = self._try(session, port, buffers, is_last, due)
        if backpressure is not None:
            self._wait(session, port, backpressure, timeout, (buffers, is_last, due))

    def try_send(
        self,
        session: Session,
        name: str,
        buffers: Sequence[Buffer],
        *,
        is_last: bool = False,
        deadline: float | None = None,
    ) -> Backpressure | None:
        """Puts buffers in if there is room; else returns what is in the way.

        Raises:
            QueueFullError, StreamClosed, Cancelled: as `send`.
        """
        port = self.port(name)
        due = None if deadline is None else self._clock.now() + deadline
        backpressure = self._try(session, port, buffers, is_last, due)
        if backpressure is not None and port.is_rejecting and backpressure.is_rejectable:
            raise self.make_refusal(port, backpressure)
        return backpressure

    @property
    def free_rows(self) -> float:
        """How many rows of new sessions may enter now; at most 0: none."""
        with self._lock:
            return free_rows(self._ports, self._in_flight)

    def count_fitting(
        self, columns: Iterable[Mapping[str, Sized]]
    ) -> tuple[int, Backpressure | None]:
        """Returns how many whole requests `enter_many` would put in now; puts nothing in.

        Args:
            columns: What each brings to each input, in order; read as far as there is room.

        Returns:
            How many, and what keeps the next one out; None: nothing does.
        """
        with self._lock:
            return count_fitting(columns, self._ports, self._in_flight, self._clock)

    def enter_many(self, entries: Sequence[SessionEntry]) -> tuple[int, Backpressure | None]:
        """Puts whole requests in, in order, as long as there is room: one lock, one wake-up.

        Those whose session is over already count as in.

        Returns:
            How many are in, and what keeps the next one out; None: all are.
        """
        doubtful = entries[:0]
        try:
            with self._lock:
                columns = (entry.columns for entry in entries)
                count, backpressure = count_fitting(
                    columns, self._ports, self._in_flight, self._clock
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
        """Puts requests in, in order, as long as there is room: as one session.

        As everywhere, a request enters whole where there is room for one row.

        Args:
            session: Made for them.
            batch_members: Who waits for what becomes of them.
            rows: What they bring, one after the other, for the graph's only input.
            sizes: How many of the rows each has, 1 at the least.
            is_together: All enter where the first queue has room for one row.

        Returns:
            How many are in, and what keeps the next one out; None: all are.
        """
        request_batch = session.request_batch
        assert request_batch is not None  # it was made for them
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
            if is_in_doubt:  # or empty: nothing will bring its end
                self._cancel(session)
        for receiver in told:
            receiver.call_due()
        if not is_in:
            request_batch.fail(self._on_end(session))
        return count, backpressure if count < len(sizes) else None

    def close(self, session: Session) -> None:
        """Ends the inputs of the session that have not ended; what was sent is still worked on."""
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
        """Has every `send` of the session look again: its input was closed, or it is over."""
        session.progress.wake()
        if self._in_flight is not None:
            self._in_flight.wake()
        for port in self._ports.values():
            for receiver, _ in port.route:
                if isinstance(receiver, Inbox):
                    receiver.wake_producers()

    def backpressure_for_source(
        self, session: Session, node: str, is_over: Callable[[], bool]
    ) -> Backpressure | None:
        """Returns what keeps the source ``node`` from producing now, or None.

        Nobody waits for it where ``is_over``; `wake` follows when that changes.
        """
        return self._entry_backpressure(session, "source", node, is_over)

    def make_refusal(self, port: EntryPort, backpressure: Backpressure) -> QueueFullError:
        """Returns the error for a row that there is no room for, with the expected wait."""
        with self._lock:
            self.refusals += 1
        wait = port.expected_wait()
        hint = "" if wait is None else f"; expected wait {wait:.3g} s"
        message = f"input {port.name!r} refused a buffer: {backpressure.reason}{hint}"
        return QueueFullError(message, wait)

    # -- under the lock -------------------------------------------------------------------------

    def _try(
        self,
        session: Session,
        port: EntryPort,
        buffers: Sequence[Buffer],
        is_last: bool,
        due: float | None,
    ) -> Backpressure | None:
        """Puts buffers in, or returns what is in the way."""
        is_in_doubt = False
        try:
            with self._lock:
                backpressure = self._backpressure(session, port)
                if backpressure is not None:
                    return backpressure
                is_in_doubt = True
                told = self._put(session, port, buffers, is_last, due)
                is_in_doubt = False
        finally:
            if is_in_doubt:
                self._cancel(session)
        if told:
            for receiver in told:
                receiver.call_due()
        return None

    def _backpressure(self, session: Session, port: EntryPort) -> Backpressure | None:
        progress = session.progress
        if progress.is_closed or port.name in progress.ended:
            raise self._on_end(session)
        # Of a whole request nothing is unread.
        is_read = progress.is_collected or progress.unread < self._unread_bound
        is_free = self._in_flight is None and is_read
        # A new row, not a partner of one.
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
        """Returns what holds back a new row; ``is_over`` unless given: the input is closed."""
        progress, in_flight = session.progress, self._in_flight
        if progress.unread >= self._unread_bound:
            is_over = is_over or (lambda: progress.is_closed)
            who = f"{what} {name!r}"
            return check_unread(session, who, self._unread_bound, self._clock, is_over)
        if in_flight is not None and in_flight.is_full:
            is_over = is_over or (lambda: progress.is_closed)
            return check_in_flight(in_flight, self._clock, is_over)
        return None

    def _put(
        self,
        session: Session,
        port: EntryPort,
        buffers: Sequence[Buffer],
        is_last: bool,
        due: float | None,
    ) -> list[Receiver]:
        """Gives buffers their positions and appends them; returns who must `call_due`."""
        first = session.progress.enter(port.name, len(buffers))
        if first is None:
            raise self._on_end(session)
        if is_last:
            session.progress.ended.add(port.name)
            if len(session.progress.ended) == len(self._ports):
                session.progress.close()
        positions = range(first, first + len(buffers))
        if due is not None:
            session.has_deadlines = True
            for buffer in buffers:
                buffer._deadline = due
        has_errors = False
        for buffer in buffers:
            has_errors = has_errors or buffer.error is not None
        segment = Segment(session.stream, positions, [list(buffers)], is_last, has_errors)
        return port.append((segment,), session.handoff)

    # -- waiting --------------------------------------------------------------------------------

    def _wait(
        self,
        session: Session,
        port: EntryPort,
        backpressure: Backpressure | None,
        timeout: float | None,
        what: tuple[Sequence[Buffer], bool, float | None],
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
