"""The bounded queue in front of a stage: it pairs several inputs, and gives out batches.

``append`` -> (`Matcher`, where there are several ports) -> `Order` -> ``take``. Three rows of one
session and two of another are appended; a worker whose batches have at most four takes the three
and one, and the next call of ``take`` gives the last.
"""

from collections.abc import Callable, Sequence
from functools import partial

from modelflow.plan import SLOW_ROW
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.queues.controlled import ControlledQueue
from modelflow.runtime.queues.match import Matcher
from modelflow.runtime.session.segment import Batch, Segment
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.worker_slot import Handoff, SlotOwner, WorkerSlot


class Inbox(ControlledQueue):
    """The queue of one stage: lock, bounds, waiting, closing; what comes next its order says.

    Producers `append` and then `wait_for_room`; workers `take`. Every method may be called from any
    thread.
    """

    def __init__(
        self,
        node: str,
        ports: Sequence[str],
        policy: InboxPolicy,
        order: Order,
        clock: Clock = SYSTEM_CLOCK,
        *,
        is_matching: bool = True,
    ) -> None:
        """Makes an empty queue.

        Args:
            node: For messages.
            ports: The connected inputs.
            policy: The bounds.
            order: What it hands out next; empty, and nobody else's.
            clock: What every wait goes by.
            is_matching: Several ports are paired, row by row.
        """
        matcher = Matcher(node, ports) if len(ports) > 1 and is_matching else None
        super().__init__(node, policy, order, matcher, clock)
        self.ports = tuple(ports)
        self._resting = self._idle_workers.slots
        self._go_by(policy)

    def _go_by(self, policy: InboxPolicy) -> None:
        self.policy = policy
        self._size = policy.batch_size
        # Several workers share what waits, and rows that take long go one by one, unless batches
        # are what is wanted: by an engine, or by ``batch_timeout_ms``.
        is_free = self._batching is None and policy.batch_size > 1
        self._is_shared = is_free and policy.workers > 1
        self._is_part = self._is_shared or self._most_rows is not None
        self._is_one_by_one = is_free and policy.is_one_by_one
        is_whole = self._batching is None and self._matcher is None
        whole = self._order.add_whole if is_whole else None
        self.append_whole = None if whole is None else partial(self._append_whole, whole)

    # -- producers ------------------------------------------------------------------------------

    def append(
        self, port: int, segments: Sequence[Segment], handoff: Handoff | None = None
    ) -> bool:
        """Puts segments at the end of a port's queue, whatever its bound; never waits.

        Args:
            port: The port.
            segments: What it is given.
            handoff: What the calling thread may go on with; it is lent the slot of a worker that
                rests, or that one is woken.

        Returns:
            True: `call_due` must follow once the caller holds no lock.
        """
        now = 0.0  # as good as at once behind the stage before, which has said when
        is_timed = self._batching is not None or self._matcher is not None
        if is_timed or not (segments and segments[0].arrived):
            now = self._clock.now()
            for segment in segments:
                segment.arrived = now
        with self._lock:
            if self._is_closed:
                return False
            if self._matcher is not None:
                self._match(self._matcher, port, segments, now)
            elif self._batching is None:
                self._order.add(port, segments)  # a cancelled session's are dropped when taken
            else:
                self._add(port, segments, now)
            if self._batching is not None and self._batching.collector is not None:
                self._batching.wake()
            elif self._resting and self._waiting:
                self._idle_workers.offer(handoff)
            return bool(self._room.due)

    def _append_whole(
        self, add: Callable[[Batch], None], batch: Batch, handoff: Handoff | None
    ) -> None:
        """Does what `append` does for a batch as it has left the stage before.

        Nothing is matched or dropped here, so nobody is to be called for it.
        """
        with self._lock:
            if self._is_closed:
                return
            add(batch)
            if self._resting:
                self._idle_workers.offer(handoff)

    def _match(self, matcher: Matcher, port: int, segments: Sequence[Segment], now: float) -> None:
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                self._drop(session)
                self.stats.dropped += len(segment.positions)
            else:
                rows = matcher.add(port, segment)
                for row in rows:
                    row.arrived = now
                self._add(port, rows, now)
        if self._room.count and self._order.is_roomy():
            self._room.wake()

    def _add(self, port: int, segments: Sequence[Segment], now: float) -> None:
        if self._batching is not None:
            self._batching.arrive(now)
        self._order.add(port, segments)

    # -- workers --------------------------------------------------------------------------------

    def limit_by(self, most_rows: Callable[[], int]) -> None:
        """Has batches be of no more rows than a unit wants, which is asked for each of them."""
        with self._lock:
            self._most_rows, self._is_part = most_rows, True
            if self._batching is not None:
                self._batching.most_rows = most_rows

    def slot(self, worker: SlotOwner | None = None, stats: WorkerStats | None = None) -> WorkerSlot:
        """Returns a new place here, for a worker that will `take`; ``stats`` count its calls."""
        return WorkerSlot(self._lock, worker, stats)

    def take(self, slot: WorkerSlot | None = None) -> Batch | None:
        """Waits for a batch; None once the inbox is closed.

        While the slot is lent it sleeps on: who is in the slot wakes it with `give_back`. Where
        that one owes a wait for room, what it returns is a batch of nothing.
        """
        order, waiting = self._order, self._waiting
        slot = slot or self.slot()
        batch = None
        with self._lock:
            while batch is None and (slot.borrower is not None or not self._is_closed):
                if slot.borrower is not None or self._idle_workers.is_held:
                    if slot.is_leaving and slot.borrower is None:
                        return None
                    self._idle_workers.rest(slot, None, is_ordered=order.is_holding)
                    continue
                if slot.is_owing:
                    slot.is_owing = False
                    batch = Batch([], [[]], False)
                    break
                # Looked at once: what it brings in is seen in the next line.
                remaining = order.next_due() if order.has_delays else None
                filling = self._batching  # anew: it may have come while the worker rested
                if waiting and (filling is None or filling.collector is None):
                    if filling is None or filling.is_over(slot):
                        # Asked only where it may be less: every batch passes here.
                        is_slow = self._is_one_by_one and slot.stats.row > SLOW_ROW
                        is_part = is_slow or self._is_part
                        batch = order.cut(self._part(slot, is_slow) if is_part else self._size)
                        if self._room.count or filling is not None:
                            self._note_cut(batch)
                        if self._resting and waiting:
                            self._wake_worker()
                    continue  # it may have waited: look again at everything
                self._idle_workers.rest(slot, remaining, is_ordered=order.is_holding)
        if self._room.due:
            self._room.call_due()
        return batch

    def take_nowait(self, slot: WorkerSlot | None = None) -> Batch | None:
        """Returns a batch of what is ready, or None; waits where only delayed events are left.

        Args:
            slot: The slot that the calling thread was lent, if any.
        """
        batch, order, waiting = None, self._order, self._waiting
        if not waiting and not order.has_delays:
            return None
        with self._lock:
            while order.has_delays and (left := order.next_due()) is not None and not waiting:
                self._idle_workers.rest(self.slot(), left, is_ordered=order.is_holding)
            while waiting and batch is None and not self._idle_workers.is_held:
                part = self._size
                if slot is not None:
                    is_slow = self._is_one_by_one and slot.stats.row > SLOW_ROW
                    is_part = is_slow or self._is_part
                    part = self._part(slot, is_slow) if is_part else part
                batch = order.cut(part)
                if self._room.count or self._batching is not None:
                    self._note_cut(batch)
            if self._resting and waiting:  # others need not wait for this call
                self._wake_worker()
        if self._room.due:
            self._room.call_due()
        return batch

    def give_back(self, slot: WorkerSlot, handoff: Handoff, is_owing: bool) -> None:
        """Takes back a slot that was lent: its worker's own thread rests there again, or works.

        Args:
            slot: The slot.
            handoff: Who was lent it.
            is_owing: Its worker is to wait for room behind the stage before it takes more.
        """
        with self._lock:
            if slot.borrower is handoff:  # else it was given back, and may be somebody else's
                slot.is_owing = is_owing
                slot.borrower = None
                if self._idle_workers.is_held:
                    self._idle_workers.look_again()
            if is_owing or self._is_closed:
                slot.wake()
            elif self._waiting:
                self._wake_worker()

    def _part(self, slot: WorkerSlot, is_slow: bool) -> int:
        """Returns the most rows that a worker takes of a burst: its part of what waits.

        All, where a call is not worth waking another thread for.

        Args:
            slot: The worker's.
            is_slow: They take long and gain nothing from one another: each goes by itself.
        """
        ready, size = self._order.ready, self._size
        if self._most_rows is not None:
            return max(1, min(size, self._most_rows()))
        if is_slow:
            part = 1
        elif slot.is_cheap:
            return size
        else:
            part = -(-ready // self.policy.workers) or 1
        if part >= size:
            return size
        if part < ready:
            slot.note_part()
        return part

    def _note_cut(self, batch: Batch | None) -> None:
        if self._batching is not None:
            self._batching.note_cut(batch)
        if self._room.count and self._order.is_roomy():
            self._room.wake()
