"""The way of requests from a server's thread into a flow, and of their answers back.

What arrives in one turn of the event loop goes in together (`Flow.submit`); what finds no room
waits here, in order, until the flow says that there is some. Answers come back over the server's
mailbox: one wake-up for all that a batch has finished.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from modelflow.errors import StreamClosed
from modelflow.flow import Flow
from modelflow.http.mailbox import Mailbox
from modelflow.serve.call import Call
from modelflow.wire.problem import Code, Problem

__all__ = ["Gangway"]


class Gangway:
    """Takes calls one by one and gives them to a flow in gangs. For the loop's thread."""

    def __init__(self, flow: Flow, mailbox: Mailbox, on_closed: Callable[[], None]) -> None:
        """Takes where the calls go.

        Args:
            flow: What answers them.
            mailbox: How other threads reach the loop's.
            on_closed: Called when the flow takes no calls any more: it has ended.
        """
        self._flow = flow
        self._mailbox = mailbox
        self._on_closed = on_closed
        self._waiting: deque[Call] = deque()
        self._is_due = self._is_blocked = False

    def __len__(self) -> int:
        """Counts the calls that are not in the flow yet."""
        return len(self._waiting)

    def add(self, call: Call) -> None:
        """Takes a call: it goes in when this turn of the loop is over."""
        self._waiting.append(call)
        if not (self._is_due or self._is_blocked):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def hurry(self) -> None:
        """Has what is here go in now."""
        if self._waiting and not self._is_blocked:
            self._enter()

    def forget(self, call: Call) -> bool:
        """Takes a call back whose caller has gone; False: it is in the flow already."""
        if call.request.is_submitted or call not in self._waiting:
            return False
        self._waiting.remove(call)
        return True

    def _enter(self) -> None:
        self._is_due = self._is_blocked = False
        if not self._waiting:
            return
        gang = [*self._waiting]
        try:
            rest = self._flow.submit([call.request for call in gang], self._told_of_room)
        except StreamClosed:
            self._waiting.clear()
            for call in gang:
                call.fail(Problem("the model has ended; come again", Code.UNAVAILABLE))
            self._on_closed()
            return
        self._is_blocked = bool(rest)
        self._waiting = deque(gang[len(gang) - len(rest) :])

    def _told_of_room(self) -> None:
        self._mailbox.post(self._enter)
