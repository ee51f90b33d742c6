"""The queue of requests between a server's thread and a flow.

All requests of one turn of the event loop are submitted together (`submit`). Requests without
room wait in the queue, in order, until the flow reports room. Short requests wait undecoded. They
share one entry of the queue, at the position of the first, and are decoded together when the entry
is next. Requests of the first class do not wait for others. If they wait for ``max_in_flight``, a
group of other requests passes them in each second. Answers return over the server's loop queue,
with one wake-up for all requests that a batch has finished.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from modelflow.errors import StreamClosed
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.orders.turns import PATIENCE
from modelflow.runtime.scheduler import Scheduler
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.pending import PendingRequests
from modelflow.serve.requests.request_batch import RequestBatch
from modelflow.stream_io.request import submit
from modelflow.wire.problem import Code, Problem


class SubmitQueue:
    """A queue that takes single requests and submits a group at once. For the loop's thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        loop_queue: LoopQueue,
        pending: PendingRequests | None,
        on_closed: Callable[[], None],
    ) -> None:
        """Stores the destination of the requests.

        Args:
            scheduler: The scheduler of the flow.
            loop_queue: Passes calls from other threads to the loop's thread.
            pending: The only `PendingRequests` that `add` may receive, or None.
            on_closed: Called when the flow has ended and takes no more requests.
        """
        self._scheduler = scheduler
        self._loop_queue = loop_queue
        self._pending = pending
        self._on_closed = on_closed
        self._waiting: deque[InferCall | RequestBatch | PendingRequests] = deque()
        self._first: list[InferCall] = []  # the requests of the first class
        self._is_first_awaited = False  # they wait until the flow reports room
        self._since: float | None = None  # both classes wait since then, or since the last turn
        self._is_due = False  # `_enter` runs after this turn of the loop
        self.is_blocked = False
        """The queue waits until the flow reports room."""

    def add(self, request: InferCall | PendingRequests) -> None:
        """Appends a request or pending requests, to be submitted after this turn of the loop."""
        self._waiting.append(request)
        if not (self._is_due or self.is_blocked):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def add_first(self, request: InferCall) -> None:
        """Appends a request of the first class, which enters a full flow as well."""
        self._first.append(request)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def hurry(self) -> None:
        """Submits the queued requests now."""
        if self._first or (self._waiting and not self.is_blocked):
            self._enter()

    def forget(self, call: InferCall) -> bool:
        """Removes a call whose caller has gone. Returns False if the call is in the flow."""
        waiting = self._first if call.request.is_first else self._waiting
        if call.request.is_submitted or call not in waiting:
            return False
        waiting.remove(call)
        return True

    def _enter(self) -> None:
        # `_is_due` is True: the loop below takes requests that are added meanwhile.
        self._is_due = True
        waiting = self._waiting
        try:
            is_due = self._begin_first() if self._first else False
            # A request of the first class that is left waits for ``max_in_flight``, before others.
            while waiting and not self.is_blocked and (is_due or not self._first):
                first = waiting[0]
                if isinstance(first, PendingRequests):
                    del waiting[0]
                    waiting.extendleft(reversed(first.read()))
                    continue
                if isinstance(first, RequestBatch):
                    rest, self.is_blocked = first.enter(self._scheduler, self._on_room)
                    if rest is None:
                        del waiting[0]
                    else:
                        waiting[0] = rest
                else:
                    self._enter_calls()
                if is_due:
                    is_due = False
                    self._enter_first()
        except StreamClosed:
            self._give_up()
        finally:
            self._is_due = False
        if self.is_blocked and self._pending is not None:
            self._pending.wait()

    def _begin_first(self) -> bool:
        """Submits the first class. Returns True if a group of the second class enters before."""
        if self._waiting and not self.is_blocked and self._is_second_due():
            return True
        self._enter_first()
        return False

    def _is_second_due(self) -> bool:
        """Tells whether a group of the second class enters before the first class, which waits."""
        now = SYSTEM_CLOCK.now()
        if self._since is None:
            self._since = now
        if now - self._since <= PATIENCE:
            return False
        self._since = now
        return True

    def _enter_first(self) -> None:
        """Submits the calls of the first class, which only ``max_in_flight`` can hold back."""
        requests = [call.request for call in self._first]
        on_room = None if self._is_first_awaited else self._on_first_room
        rest = submit(self._scheduler, requests, on_room)
        del self._first[: len(requests) - len(rest)]
        self._is_first_awaited = bool(rest)
        if not rest:
            self._since = None

    def _enter_calls(self) -> None:
        """Submits the calls before the next request batch that fit into the flow, and another call.

        Because of the extra call, the flow reports when it has room again. The cost of a submission
        does not depend on the number of waiting calls.
        """
        room = self._scheduler.submitter.free_rows
        group: list[InferCall] = []
        for one in self._waiting:
            if not isinstance(one, InferCall):
                break
            group.append(one)
            if room <= 0:
                break
            room -= one.rows
        rest = submit(self._scheduler, [call.request for call in group], self._on_room)
        for _ in range(len(group) - len(rest)):
            self._waiting.popleft()
        self.is_blocked = bool(rest)

    def _give_up(self) -> None:
        """Refuses all waiting requests, because the flow has ended."""
        problem = Problem("the model has ended; try again", Code.UNAVAILABLE)
        waiting = [*self._first, *self._waiting]
        self._first, self._waiting = [], deque()
        for one in waiting:
            if not isinstance(one, InferCall):
                one.refuse(problem)
            elif one.request.is_submitted:
                # Another request has taken its room. The call already has a session, which the flow
                # may have ended.
                one.request.cancel()
            else:
                one.fail(problem)
        self._on_closed()

    # Each class waits for its own call. A refused `RequestBatch` wakes the others that wait for
    # room, so a queue that tried again for another's call would never rest.

    def _on_room(self) -> None:
        self._loop_queue.post(self._go_on)

    def _go_on(self) -> None:
        self.is_blocked = False
        self._enter()

    def _on_first_room(self) -> None:
        self._loop_queue.post(self._go_on_first)

    def _go_on_first(self) -> None:
        self._is_first_awaited = False
        self._enter()
