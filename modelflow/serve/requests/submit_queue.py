"""The way of requests from a server's thread into a flow, and of their answers back.

What arrives in one turn of the event loop goes in together (`Flow.submit`); what finds no room
waits here, in order, until the flow says that there is some. Small requests wait as they came, and
are read together, too, when they go in. Answers come back over the server's loop queue: one wake-up
for all that a batch has finished.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from modelflow.errors import StreamClosed
from modelflow.flow import Flow
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.requests.infer_request import InferCall
from modelflow.serve.requests.pending import PendingRequests
from modelflow.serve.requests.request_batch import RequestBatch
from modelflow.wire.problem import Code, Problem


class SubmitQueue:
    """Takes calls one by one and gives them to a flow together. For the loop's thread."""

    def __init__(
        self,
        flow: Flow,
        loop_queue: LoopQueue,
        pending: PendingRequests | None,
        on_closed: Callable[[], None],
    ) -> None:
        """Takes where the calls go.

        Args:
            flow: What answers them.
            loop_queue: How other threads reach the loop's.
            pending: Requests that go in as well, and are read then.
            on_closed: Called when the flow takes no calls any more: it has ended.
        """
        self._flow = flow
        self._loop_queue = loop_queue
        self._pending = pending
        self._on_closed = on_closed
        self._waiting: deque[InferCall | RequestBatch] = deque()
        self.is_due = False
        """What is added now goes in when this turn of the loop is over."""
        self._is_blocked = False

    def add(self, call: InferCall) -> None:
        """Takes a call: it goes in when this turn of the loop is over."""
        self._waiting.append(call)
        if not (self.is_due or self._is_blocked):  # as `wake`, without a call
            self.is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def wake(self) -> None:
        """Has what is here, and is still unread, go in when this turn of the loop is over."""
        if self._is_blocked:
            self._wait()
        elif not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def hurry(self) -> None:
        """Has what is here go in now."""
        if self._is_blocked:
            self._wait()
        elif self._waiting or self._pending:
            self._enter()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.wait()

    def forget(self, call: InferCall) -> bool:
        """Takes a call back whose caller has gone; False: it is in the flow already."""
        if call.request.is_submitted or call not in self._waiting:
            return False
        self._waiting.remove(call)
        return True

    def _enter(self) -> None:
        if self._pending:
            self.is_due = True  # what is added now goes in below
            self._waiting.extend(self._pending.read())
        self.is_due = self._is_blocked = False
        try:
            while self._waiting and not self._is_blocked:
                if isinstance(self._waiting[0], RequestBatch):
                    self._enter_batch(self._waiting[0])
                else:
                    self._enter_calls()
        except StreamClosed:
            self._give_up()

    def _enter_batch(self, request_batch: RequestBatch) -> None:
        rest = request_batch.enter(self._flow, self._on_room)
        if rest is None:
            self._waiting.popleft()
        else:
            self._waiting[0] = rest
            self._is_blocked = True

    def _enter_calls(self) -> None:
        """Offers the flow what it has room for of the calls before the next request batch, and one
        more.

        For that one the flow says when there is room. What each admission costs does not depend on
        how many calls wait.
        """
        room = self._flow.free_rows
        group: list[InferCall] = []
        for one in self._waiting:
            if isinstance(one, RequestBatch):
                break
            group.append(one)
            if room <= 0:
                break
            room -= one.rows
        rest = self._flow.submit([call.request for call in group], self._on_room)
        for _ in range(len(group) - len(rest)):
            self._waiting.popleft()
        self._is_blocked = bool(rest)

    def _give_up(self) -> None:
        """Refuses all that wait: the flow has ended."""
        problem = Problem("the model has ended; come again", Code.UNAVAILABLE)
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if isinstance(one, RequestBatch):
                one.refuse(problem)
            elif one.request.is_submitted:
                # Another has taken its room: it is a session, which the flow may have ended.
                one.request.cancel()
            else:
                one.fail(problem)
        self._on_closed()

    def _on_room(self) -> None:
        self._loop_queue.post(self._enter)
