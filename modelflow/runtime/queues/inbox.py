"""The bounded queue in front of a stage, which pairs several inputs and gives out batches.

The path of a row is ``append`` -> `Matcher` (only with several ports) -> `Order` -> ``take``.

Example: a producer appends three rows of one session and two of another. With ``batch_size=4`` the
first ``take`` returns the three rows and one of the other session. The next ``take`` returns the
last row.
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
    """The queue of one stage: lock, bounds, waiting, closing.

    The `Order` decides which rows come next. Producers call `append` and then `wait_for_room`;
    workers call `take`. You may call every method from any thread.
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
        """Creates an empty queue.

        Args:
            node: The node's name, for messages.
            ports: The connected inputs.
            policy: The bounds.
            order: An empty order, used by this queue only.
            clock: The clock of every wait.
            is_matching: True if several ports are paired, row by row.
        """
        matcher = Matcher(node, ports) if len(ports) > 1 and is_matching else None
        super().__init__(node, policy, order, matcher, clock)
        self.ports = tuple(ports)
        self._resting = self._idle_workers.slots
        self._go_by(policy)

    def _go_by(self, policy: InboxPolicy) -> None:
        self.policy = policy
        self._size = policy.batch_size
        # Several workers share the waiting rows, and each slow row becomes a batch of its own. Both
        # rules are off if an engine or ``batch_timeout_ms`` asks for batches.
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
        """Appends segments to a port's queue without waiting, even beyond the bound.

        Args:
            port: The port.
            segments: The segments to append.
            handoff: The slots that the calling thread has borrowed. With it, the thread may borrow
                the slot of an idle worker; otherwise an idle worker is woken.

        Returns:
            True if the caller must call `call_due` once it holds no lock.
        """
        # The stage before has set ``arrived`` to the end of its call. That is accurate enough here.
        now = 0.0
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
                self._order.add(port, segments)  # `cut` drops the rows of cancelled sessions
            else:
                self._add(port, segments, now)
            if self._batching is not None and self._batching.collector is not None:
                self._batching.wake()
            elif (
                (resting := self._resting)
                and self._waiting
                # the only idle worker may have been woken before
                and not (len(resting) == 1 and resting[0].is_called)
            ):
                self._idle_workers.offer(handoff)
            return bool(self._room.due)

    def _append_whole(
        self, add: Callable[[Batch], None], batch: Batch, handoff: Handoff | None
    ) -> None:
        """Appends a whole batch of the stage before, not split into segments; see `append`.

        No row is matched or dropped here, so the caller need not call `call_due`.
        """
        with self._lock:
            if self._is_closed:
                return
            add(batch)
            if self._batching is not None:  # set since the caller has read `append_whole`
                self._wake_worker()
            elif self._resting:
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
        if self._room.is_awaited and self._order.is_roomy():
            self._room.wake()

    def _add(self, port: int, segments: Sequence[Segment], now: float) -> None:
        if self._batching is not None:
            self._batching.arrive(now)
        self._order.add(port, segments)

    # -- workers --------------------------------------------------------------------------------

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns counters of the order for `NodeStats.figures`."""
        with self._lock:
            return self._order.figures()

    def limit_by(self, most_rows: Callable[[], int]) -> None:
        """Limits each batch to ``most_rows()`` rows, called before every batch is cut."""
        with self._lock:
            self._most_rows, self._is_part = most_rows, True
            if self._batching is not None:
                self._batching.most_rows = most_rows

    def slot(self, worker: SlotOwner | None = None, stats: WorkerStats | None = None) -> WorkerSlot:
        """Returns a new slot for a worker of this queue; ``stats`` count the worker's calls."""
        return WorkerSlot(self._lock, worker, stats)

    def take(self, slot: WorkerSlot | None = None) -> Batch | None:
        """Waits for a batch; returns None once the inbox is closed.

        While the slot is lent, the worker's own thread stays asleep until the borrower calls
        `give_back`. If the borrower left a wait for room to this worker, `take` returns an empty
        batch, which makes the worker check for room.
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
                # Before ``waiting`` is read: `next_due` may add delayed events that are due now.
                remaining = order.next_due() if order.has_delays else None
                filling = self._batching  # read again: `set_bounds` may have set it meanwhile
                if waiting and (filling is None or filling.collector is None):
                    if filling is None or filling.is_over(slot):
                        # `_part` costs a call, so it is called only if the result may differ.
                        is_slow = self._is_one_by_one and slot.stats.row > SLOW_ROW
                        is_part = is_slow or self._is_part
                        batch = order.cut(self._part(slot, is_slow) if is_part else self._size)
                        if filling is not None or (self._room.is_awaited and order.is_roomy()):
                            self._note_cut(batch)
                        if self._resting and waiting:
                            self._wake_worker()
                    continue  # `is_over` may have waited: check everything again
                self._idle_workers.rest(slot, remaining, is_ordered=order.is_holding)
        if self._room.due:
            self._room.call_due()
        return batch

    def take_nowait(self, slot: WorkerSlot | None = None) -> Batch | None:
        """Returns a batch of ready rows, or None; waits only if all that remains is delayed events.

        Args:
            slot: The slot that the calling thread has borrowed, if any.
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
                if self._batching is not None or (self._room.is_awaited and order.is_roomy()):
                    self._note_cut(batch)
            if self._resting and waiting:  # other workers can start before this call ends
                self._wake_worker()
        if self._room.due:
            self._room.call_due()
        return batch

    def give_back(self, slot: WorkerSlot, handoff: Handoff, is_owing: bool) -> None:
        """Takes back a lent slot, and wakes a worker if rows wait.

        Args:
            slot: The slot.
            handoff: The borrower.
            is_owing: True if the slot's worker must wait for room in the next queue before it
                takes more rows.
        """
        with self._lock:
            if slot.borrower is handoff:  # else it was given back, and may have a new borrower
                slot.is_owing = is_owing
                slot.borrower = None
                if self._idle_workers.is_held:
                    self._idle_workers.look_again()
            if is_owing or self._is_closed:
                slot.wake()
            elif self._waiting:
                self._wake_worker()

    def _part(self, slot: WorkerSlot, is_slow: bool) -> int:
        """Returns the most rows that a worker takes at once, to share waiting rows fairly.

        Returns a whole batch if a call costs less than waking another thread.

        Args:
            slot: The worker's slot.
            is_slow: True if a row takes long and gains nothing from a batch. Then each row becomes
                a batch of its own.
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
        if self._room.is_awaited and self._order.is_roomy():
            self._room.wake()
