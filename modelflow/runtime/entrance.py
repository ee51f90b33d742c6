"""How rows enter the graph: admission, back-pressure, positions."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, QueueFullError, StreamClosed, did_you_mean
from modelflow.runtime.admission import Admission
from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox
from modelflow.runtime.outbox import Receiver
from modelflow.runtime.segment import Segment
from modelflow.runtime.session import Session

__all__ = ["Blocker", "Entrance", "EntryPort"]

logger = logging.getLogger("modelflow")

# A send that has waited this long says in a warning what it waits for.
WARN_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class EntryPort:
    """One graph input: what it feeds, and whether it refuses instead of waiting.

    Attributes:
        name: The input's name.
        route: The receivers, with their port numbers.
        is_rejecting: A node that it feeds says ``queue_policy=reject``.
        expected_wait: Gives the expected wait in seconds until there is room, or None.
    """

    name: str
    route: tuple[tuple[Receiver, int], ...]
    is_rejecting: bool
    expected_wait: Callable[[], float | None]


@dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps rows from entering now.

    Attributes:
        reason: For messages.
        wait: Waits until it may have gone, at most so many seconds.
        on_gone: Registers a callback for that moment.
        is_rejectable: ``queue_policy=reject`` refuses instead of waiting for it.
    """

    reason: str
    wait: Callable[[float | None], object]
    on_gone: Callable[[Callable[[], None]], None]
    is_rejectable: bool


class Entrance:
    """The way into the graph for every session. Safe from any thread.

    A row enters when the session's reader is not too far behind (``unread_bound``), the graph as a
    whole admits it (``max_in_flight``), and the first queues have room. Nothing is put in before
    all of that holds, so that a time-out means that nothing was sent.
    """

    def __init__(
        self,
        ports: Mapping[str, EntryPort],
        admission: Admission | None,
        unread_bound: int,
        clock: Clock,
    ) -> None:
        self._ports = ports
        self._admission = admission
        self._unread_bound = unread_bound
        self._clock = clock

    def port(self, name: str) -> EntryPort:
        """Returns the graph input ``name``.

        Raises:
            KeyError: there is none; the message names those that are.
        """
        port = self._ports.get(name)
        if port is None:
            names = ", ".join(self._ports) or "none"
            message = (
                f"the graph has no input {name!r}{did_you_mean(name, self._ports)} "
                f"(inputs: {names})"
            )
            raise KeyError(message)
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
        port = self.port(name)
        blocker = self.blocker(session, port)
        if blocker is not None:
            self._wait(session, port, blocker, timeout)
        self._put(session, port, buffers, is_last, deadline)

    def send_nowait(
        self, session: Session, name: str, buffers: Sequence[Buffer], deadline: float | None = None
    ) -> Blocker | None:
        """Puts buffers in if there is room; else returns what is in the way."""
        port = self.port(name)
        blocker = self.blocker(session, port)
        if blocker is None:
            self._put(session, port, buffers, False, deadline)
        elif port.is_rejecting and blocker.is_rejectable:
            raise self._refused(port, blocker)
        return blocker

    def close(self, session: Session) -> None:
        """Ends every input of the session; what has been sent is still worked on."""
        with session.entry_lock:
            if session.is_closed:
                return
            session.is_closed = True
            for port in self._ports.values():
                _append(port, Segment(session.stream, (), [[]], True, False))
        session.wake_senders()

    def admit(self, session: Session, node: str) -> Blocker | None:
        """Returns what keeps the source ``node`` from producing now, or None."""
        if session.unread >= self._unread_bound:
            return self._unread_blocker(session, f"source {node!r}")
        if self._admission is not None and self._admission.is_full:
            return self._admission_blocker(self._admission)
        return None

    def enter(self, session: Session, name: str, count: int) -> int | None:
        """Counts rows in; returns the first one's position; None if it is cancelled."""
        first = session.counts.get(name, 0)
        new = session.enter(name, count)
        if new is None:
            return None
        if new and self._admission is not None:
            self._admission.add(new)
        return first

    def blocker(self, session: Session, port: EntryPort) -> Blocker | None:
        """Returns what keeps a row of ``session`` from entering at ``port`` now, or None.

        Raises:
            StreamClosed, Cancelled: the session has ended.
        """
        self._check_open(session)
        if session.counts.get(port.name, 0) >= session.sent:  # a new row, not a partner
            if session.unread >= self._unread_bound:
                return self._unread_blocker(session, f"send to {port.name!r}")
            if self._admission is not None and self._admission.is_full:
                return self._admission_blocker(self._admission)
        for receiver, number in port.route:
            if isinstance(receiver, Inbox) and not receiver.has_room(number, session):
                return _inbox_blocker(receiver, number, session)
        return None

    def _check_open(self, session: Session) -> None:
        if session.is_cancelled:
            if session.failure is not None:
                raise session.failure
            message = f"session {session.name!r} was cancelled"
            raise Cancelled(message)
        if session.is_closed:
            message = f"the input of session {session.name!r} is closed; nothing can be sent to it"
            raise StreamClosed(message)

    def _wait(
        self, session: Session, port: EntryPort, blocker: Blocker | None, timeout: float | None
    ) -> None:
        start = self._clock.now()
        has_warned = False
        while blocker is not None:
            if port.is_rejecting and blocker.is_rejectable:
                raise self._refused(port, blocker)
            waited = self._clock.now() - start
            if timeout is not None and waited >= timeout:
                message = (
                    f"nothing was sent to {port.name!r} within {timeout:g} s: {blocker.reason}"
                )
                raise TimeoutError(message)
            if not has_warned and waited >= WARN_AFTER:
                has_warned = True
                logger.warning(
                    "send to %r has waited for %.0f s: %s", port.name, waited, blocker.reason
                )
            until = [timeout] if timeout is not None else []
            until += [] if has_warned else [WARN_AFTER]
            blocker.wait(min(until) - waited if until else None)
            blocker = self.blocker(session, port)

    def _put(
        self,
        session: Session,
        port: EntryPort,
        buffers: Sequence[Buffer],
        is_last: bool,
        deadline: float | None,
    ) -> None:
        # Held while positions are given and appended, so that two senders do not change places.
        with session.entry_lock:
            self._check_open(session)
            first = self.enter(session, port.name, len(buffers))
            if first is None:
                self._check_open(session)
                return
            positions = range(first, first + len(buffers))
            if deadline is not None:
                due = self._clock.now() + deadline
                session.deadlines.update(dict.fromkeys(positions, due))
            has_errors = False
            for buffer in buffers:
                has_errors = has_errors or buffer.error is not None
            _append(port, Segment(session.stream, positions, [list(buffers)], is_last, has_errors))

    def _refused(self, port: EntryPort, blocker: Blocker) -> QueueFullError:
        wait = port.expected_wait()
        hint = "" if wait is None else f"; expected wait {wait:.3g} s"
        message = f"input {port.name!r} refused a buffer: {blocker.reason}{hint}"
        return QueueFullError(message, wait)

    def _unread_blocker(self, session: Session, who: str) -> Blocker:
        unread = ", ".join(
            f"{output!r} ({len(results)} unread)" for output, results in session.results.items()
        )
        bound = self._unread_bound
        return Blocker(
            f"{who} waits because {bound} buffers of session {session.name!r} have not been "
            f"received: read its outputs {unread}, or raise results_bound",
            lambda timeout: session.wait_until_read(self._clock, bound, timeout),
            lambda callback: session.on_read(bound, callback),
            is_rejectable=False,
        )

    def _admission_blocker(self, admission: Admission) -> Blocker:
        return Blocker(
            f"max_in_flight={admission.bound} buffers are inside the graph",
            lambda timeout: admission.wait(self._clock, timeout),
            admission.on_room,
            is_rejectable=True,
        )


def _inbox_blocker(inbox: Inbox, port: int, session: Session) -> Blocker:
    if inbox.is_unmatched(port):
        reason = (
            f"{inbox.policy.unmatched_bounds[port]} buffers of input {inbox.ports[port]!r} of node "
            f"{inbox.node!r} wait for their partners on its other inputs"
        )
    else:
        reason = f"the queue of node {inbox.node!r} is full ({inbox.ready} buffers)"
    return Blocker(
        reason,
        lambda timeout: inbox.wait_for_room(port, timeout, session),
        lambda callback: inbox.on_room(port, callback, session),
        is_rejectable=not inbox.is_unmatched(port),
    )


def _append(port: EntryPort, segment: Segment) -> None:
    for number, (receiver, target) in enumerate(port.route):
        if number:
            columns = [list(column) for column in segment.columns]
            segment = Segment(
                segment.stream, segment.positions, columns, segment.is_last, segment.has_errors
            )
        receiver.append(target, (segment,))
