"""The way of requests from a server's thread into a flow, and of their answers back.

What arrives in one turn of the event loop goes in together (`submit`); what finds no room waits
here, in order, until the flow says that there is some. Short requests wait as they came, and are
read together when it is their turn: they stand in the queue as one entry, at the place of the
first. Answers come back over the server's loop queue: one wake-up for all that a batch has
finished.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from modelflow.errors import StreamClosed
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.scheduler import Scheduler
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.pending import PendingRequests
from modelflow.serve.requests.request_batch import RequestBatch
from modelflow.stream_io.request import submit
from modelflow.wire.problem import Code, Problem


class SubmitQueue:
    """Takes requests one by one and gives them to a flow together. For the loop's thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        loop_queue: LoopQueue,
        pending: PendingRequests | None,
        on_closed: Callable[[], None],
    ) -> None:
        """Takes where the requests go.

        Args:
            scheduler: Of the flow that answers them.
            loop_queue: How other threads reach the loop's.
            pending: The only such entry that `add` is given; None: it is given none.
            on_closed: Called when the flow takes no requests any more: it has ended.
        """
        self._scheduler = scheduler
        self._loop_queue = loop_queue
        self._pending = pending
        self._on_closed = on_closed
        self._waiting: deque[InferCall | RequestBatch | PendingRequests] = deque()
        self._is_due = False  # what is added now goes in when this turn of the loop is over
        self.is_blocked = False
        """What is here waits until the flow says that there is room."""

    def add(self, request: InferCall | PendingRequests) -> None:
        """Takes a request, or several: they go in when this turn of the loop is over."""
        self._waiting.append(request)
        if not (self._is_due or self.is_blocked):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def hurry(self) -> None:
        """Has what is here go in now."""
        if self._waiting and not self.is_blocked:
            self._enter()

    def forget(self, call: InferCall) -> bool:
        """Takes a call back whose caller has gone; False: it is in the flow already."""
        if call.request.is_submitted or call not in self._waiting:
            return False
        self._waiting.remove(call)
        return True

    def _enter(self) -> None:
        self._is_due, self.is_blocked = True, False  # what is added meanwhile goes in below
        waiting = self._waiting
        try:
            while waiting and not self.is_blocked:
                first = waiting[0]
                if isinstance(first, PendingRequests):
                    del waiting[0]
                    waiting.extendleft(reversed(first.read()))
                elif isinstance(first, RequestBatch):
                    rest, self.is_blocked = first.enter(self._scheduler, self._on_room)
                    if rest is None:
                        del waiting[0]
                    else:
                        waiting[0] = rest
                else:
                    self._enter_calls()
        except StreamClosed:
            self._give_up()
        finally:
            self._is_due = False
        if self.is_blocked and self._pending is not None:
            self._pending.wait()

    def _enter_calls(self) -> None:
        """Offers the flow what it has room for of the calls before the next request batch, and one
        more.

        For that one the flow says when there is room. What each admission costs does not depend on
        how many calls wait.
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
        """Refuses all that wait: the flow has ended."""
        problem = Problem("the model has ended; come again", Code.UNAVAILABLE)
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not isinstance(one, InferCall):
                one.refuse(problem)
            elif one.request.is_submitted:
                # Another has taken its room: it is a session, which the flow may have ended.
                one.request.cancel()
            else:
                one.fail(problem)
        self._on_closed()

    def _on_room(self) -> None:
        self._loop_queue.post(self._enter)
