"""The bounded queue in front of a stage: it pairs several inputs, and cuts batches."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.match import Matcher
from modelflow.runtime.segment import Batch, Segment, Slice
from modelflow.runtime.stats import QueueFigures

if TYPE_CHECKING:
    from modelflow.runtime.session import Session

__all__ = ["Inbox", "InboxPolicy", "bytes_of"]


@dataclass(frozen=True, slots=True)
class InboxPolicy:
    """How an inbox bounds and cuts.

    Attributes:
        bounds: For each port, the ready rows at which its producers begin to wait.
        batch_size: Most rows in a batch.
        batch_timeout: Longest wait in seconds for a fuller batch, once a row is ready.
        byte_bound: Producers wait too while the ready rows hold that many bytes; None: no bound.
        unmatched_bounds: For each port, the buffers without a partner at which its producers wait;
            empty: never. Only the graph's inputs have it: a caller may forget the other port.
        is_ordered: Slices get tickets, because several workers take from this inbox.
        is_measured: Why batches close and how long they waited is counted.
        split_size: Most rows of one session in a batch while others wait; 0: as they come.
    """

    bounds: tuple[int, ...]
    batch_size: int = 1
    batch_timeout: float = 0.0
    byte_bound: int | None = None
    unmatched_bounds: tuple[int, ...] = ()
    is_ordered: bool = False
    is_measured: bool = False
    split_size: int = 0


class Inbox:
    """The queue of one stage.

    Producers `append` and then `wait_for_room`; workers `take`. Only *ready* rows (each port has
    its buffer) count towards the bound: waiting could not help those that lack a partner along, so
    they never block a producer. Every method may be called from any thread.
    """

    def __init__(
        self, node: str, ports: Sequence[str], policy: InboxPolicy, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.node = node
        self.ports = tuple(ports)
        self.policy = policy
        self.ready = 0
        self.ready_bytes = 0
        # Producers stop at the bound: a batch of that many rows cannot become fuller.
        self._full = min(policy.batch_size, *policy.bounds)
        self._clock = clock
        self._queue: deque[Any] = deque()
        self._matcher = Matcher(node, ports) if len(ports) > 1 else None
        self._width = max(1, len(ports))
        self._tickets: dict[Session, int] = {}
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._idle = 0
        self._producers = 0
        self._room_callbacks: list[Callable[[], None]] = []
        self._is_collecting = False
        self.figures = QueueFigures() if policy.is_measured else None
        self._oldest: float | None = None
        self._is_closed = False

    # -- producers ------------------------------------------------------------------------------

    def append(self, port: int, segments: Sequence[Segment]) -> None:
        """Puts segments at the end of a port's queue, whatever its bound; never waits."""
        with self._lock:
            if self._is_closed:
                return
            if self._matcher is None:
                self._add(segments)  # those of a cancelled session are dropped when they are taken
            else:
                for segment in segments:
                    if segment.stream.session.is_cancelled:
                        self._forget(segment.stream.session)
                    else:
                        self._add(self._matcher.add(port, segment))
            if self._matcher is not None and (self._producers or self._room_callbacks):
                self._signal_room()
            if self._queue and (self._idle or self._is_collecting):
                self._wake_worker()

    def _add(self, segments: Sequence[Segment]) -> None:
        if not self._queue and self.policy.batch_timeout:
            self._oldest = self._clock.now()
        self._enqueue(segments)
        ready = self.ready
        for segment in segments:
            ready += len(segment.positions)
        self.ready = ready
        if self.figures is not None:
            now = self._clock.now()
            for segment in segments:
                segment.arrived = now
        if self.policy.byte_bound is not None:
            self.ready_bytes += sum(map(bytes_of, segments))

    def _enqueue(self, segments: Sequence[Segment]) -> None:
        self._queue.extend(segments)

    def has_room(self, port: int, session: "Session | None" = None) -> bool:  # noqa: ARG002
        """Tells whether a producer of ``port`` may go on now (with buffers of ``session``)."""
        policy = self.policy
        return self._is_closed or (
            self.ready < policy.bounds[port]
            and (policy.byte_bound is None or self.ready_bytes < policy.byte_bound)
            and not self.is_unmatched(port)
        )

    def is_unmatched(self, port: int) -> bool:
        """Tells whether so many buffers of ``port`` lack a partner that its producers must wait."""
        bounds = self.policy.unmatched_bounds
        return (
            bool(bounds)
            and self._matcher is not None
            and (self._matcher.waiting(port) >= bounds[port])
        )

    def wait_for_room(
        self, port: int, timeout: float | None = None, session: "Session | None" = None
    ) -> bool:
        """Waits while this inbox holds ready rows of at least its bound.

        A producer that had to wait goes on when half of the queue is free, so that the two sides
        do not wake each other for every buffer.

        Returns:
            False if ``timeout`` seconds passed and there is still no room.
        """
        if self.has_room(port, session):
            return True
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._lock:
            self._producers += 1
            try:
                while not self.has_room(port, session):
                    left = None if deadline is None else deadline - self._clock.now()
                    if left is not None and left <= 0:
                        return False
                    self._clock.wait(self._room, left)
            finally:
                self._producers -= 1
        return True

    def on_room(
        self, port: int, callback: Callable[[], None], session: "Session | None" = None
    ) -> None:
        """Calls ``callback`` once, when a producer of ``port`` may go on (perhaps at once)."""
        with self._lock:
            if not self.has_room(port, session):
                self._room_callbacks.append(callback)
                return
        callback()

    # -- workers --------------------------------------------------------------------------------

    def take(self) -> Batch | None:
        """Waits for a batch; None once the inbox is closed."""
        with self._lock:
            while not self._is_closed:
                if self._queue and not self._is_collecting and self._is_due():
                    batch = self._cut(self.policy.batch_size)
                    if self._idle and self._queue:
                        self._wake_worker()
                    if batch.slices:
                        return batch
                    continue
                self._rest()
            return None

    def _rest(self, timeout: float | None = None) -> None:
        """Waits for work, as one who may be woken for it."""
        self._idle += 1
        self._clock.wait(self._work, timeout)
        self._idle -= 1

    def take_nowait(self) -> Batch | None:
        """Returns a batch of what is ready, or None."""
        with self._lock:
            while self._queue:
                batch = self._cut(self.policy.batch_size)
                if batch.slices:
                    return batch
            return None

    def _is_due(self) -> bool:
        """Waits for a fuller batch where the policy says so; True when one is to be cut."""
        policy = self.policy
        if not policy.batch_timeout or self.ready == 0:
            return True
        self._is_collecting = True
        try:
            while self._queue and self.ready < self._full and not self._is_closed:
                oldest = self._oldest if self._oldest is not None else self._clock.now()
                left = oldest + policy.batch_timeout - self._clock.now()
                if left <= 0:
                    break
                self._clock.wait(self._work, left)
        finally:
            self._is_collecting = False
        return bool(self._queue) and not self._is_closed

    def _wake_worker(self) -> None:
        # While one worker fills its batch, the others sleep: only a broadcast surely reaches it.
        if self._is_collecting:
            if self.ready >= self._full:
                self._work.notify_all()
        else:
            self._work.notify()

    def _cut(self, size: int) -> Batch:
        picked, left = self._pick(size)
        self._discount(picked, size - left)
        if self.figures is not None:
            self._measure(picked, is_full=left == 0)
        batch = Batch.of(picked, self._width)
        if self.policy.is_ordered:
            for part in batch.slices:
                part.ticket = self._ticket(part)
        self._oldest = self._clock.now() if self._queue and self.policy.batch_timeout else None
        if self._producers or self._room_callbacks:
            self._signal_room()
        return batch

    def _pick(self, size: int) -> tuple[list[Segment], int]:
        """Takes up to ``size`` rows out of the queue; gives their segments, and how many lack."""
        picked: list[Segment] = []
        return picked, self._take_rows(self._queue, size, picked)

    def _take_rows(self, segments: deque[Any], size: int, picked: list[Segment]) -> int:
        """Moves up to ``size`` rows, and the ends behind them, to ``picked``; says how many lack.

        What is left of a cancelled session is dropped.
        """
        left = size
        while segments:
            segment = segments[0]
            count = len(segment.positions)
            if left == 0 and count:
                break
            segments.popleft()
            if segment.stream.session.is_cancelled:
                self._discount((segment,), count)
                self._forget(segment.stream.session)
                continue
            if count > left:
                segment, rest = segment.split(left)
                rest.arrived = segment.arrived
                segments.appendleft(rest)
                count = left
            left -= count
            picked.append(segment)
        return left

    def _measure(self, picked: Sequence[Segment], *, is_full: bool) -> None:
        figures, now = self.figures, self._clock.now()
        rows = [segment for segment in picked if segment.positions]
        if figures is None or not rows:
            return
        waited = now - min(segment.arrived for segment in rows)
        if is_full:
            reason = "full"
        elif self.policy.batch_timeout and waited >= self.policy.batch_timeout:
            reason = "timeout"
        elif rows[-1].is_last:
            reason = "end_of_stream"
        else:
            reason = "nothing_waiting"
        figures.count(reason, waited)

    def _ticket(self, part: Slice) -> int | None:
        session = part.stream.session
        ticket = self._tickets.get(session, 0)
        if not part.is_lane_end:
            self._tickets[session] = ticket + 1
            return ticket
        self._tickets.pop(session, None)
        return ticket or None  # all of the session in one slice: nothing can overtake it

    def _discount(self, segments: Sequence[Segment], count: int) -> None:
        self.ready -= count
        if self.policy.byte_bound is not None:
            self.ready_bytes -= sum(map(bytes_of, segments))

    def _signal_room(self) -> None:
        # Half of the smallest bound: see wait_for_room.
        if self.ready > min(self.policy.bounds) // 2:
            return
        if self.policy.byte_bound is not None and self.ready_bytes > self.policy.byte_bound // 2:
            return
        self._room.notify_all()
        callbacks, self._room_callbacks = self._room_callbacks, []
        for callback in callbacks:
            callback()

    # -- control --------------------------------------------------------------------------------

    def discard(self, session: "Session") -> None:
        """Drops everything that is queued of a session, and its state."""
        with self._lock:
            self._drop(session)
            self._signal_room()

    def _drop(self, session: "Session") -> None:
        kept: deque[Any] = deque()
        for segment in self._queue:
            if segment.stream.session is session:
                self._discount((segment,), len(segment.positions))
            else:
                kept.append(segment)
        self._queue = kept
        self._forget(session)

    def close(self) -> None:
        """Wakes everyone: workers get None, producers go on, what is queued is dropped."""
        with self._lock:
            self._is_closed = True
            self._clear()
            self._work.notify_all()
            self._room.notify_all()
            callbacks, self._room_callbacks = self._room_callbacks, []
        for callback in callbacks:
            callback()

    def _clear(self) -> None:
        self._queue.clear()
        self.ready = self.ready_bytes = 0

    def _forget(self, session: "Session") -> None:
        self._tickets.pop(session, None)
        if self._matcher is not None:
            self._matcher.discard(session)


def bytes_of(segment: Segment) -> int:
    """Returns how many bytes the data of a segment takes: arrays, bytes, text."""
    return sum(map(_size, (buffer for column in segment.columns for buffer in column)))


def _size(buffer: Any) -> int:
    if isinstance(buffer, list):  # a sub-stream, to be collapsed
        return sum(map(_size, buffer))
    data = buffer.data
    if isinstance(data, np.ndarray):
        return data.nbytes
    return len(data) if isinstance(data, bytes | bytearray | memoryview | str) else 0
