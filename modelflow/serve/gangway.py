"""The way of requests from a server's thread into a flow, and of their answers back.

What arrives in one turn of the event loop goes in together (`Flow.submit`); what finds no room
waits here, in order, until the flow says that there is some. Small requests wait as they came, and
are read together, too, when they go in. Answers come back over the server's mailbox: one wake-up
for all that a batch has finished.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from modelflow.errors import StreamClosed
from modelflow.flow import Flow
from modelflow.http.mailbox import Mailbox
from modelflow.serve.call import Call
from modelflow.serve.unread import Unread
from modelflow.wire.problem import Code, Problem

__all__ = ["Gangway"]


class Gangway:
    """Takes calls one by one and gives them to a flow in gangs. For the loop's thread."""

    def __init__(
        self,
        flow: Flow,
        mailbox: Mailbox,
        unread: Unread,
        on_closed: Callable[[], None],
    ) -> None:
        """Takes where the calls go.

        Args:
            flow: What answers them.
            mailbox: How other threads reach the loop's.
            unread: Requests that go in as well, and are read then.
            on_closed: Called when the flow takes no calls any more: it has ended.
        """
        self._flow = flow
        self._mailbox = mailbox
        self._unread = unread
        self._on_closed = on_closed
        self._waiting: deque[Call] = deque()
        self._is_due = self._is_blocked = False

    def add(self, call: Call) -> None:
        """Takes a call: it goes in when this turn of the loop is over."""
        self._waiting.append(call)
        self.come_soon()

    def come_soon(self) -> None:
        """Has what is here go in when this turn of the loop is over."""
        if not (self._is_due or self._is_blocked):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._enter)

    def hurry(self) -> None:
        """Has what is here go in now."""
        if (self._waiting or self._unread) and not self._is_blocked:
            self._enter()

    def forget(self, call: Call) -> bool:
        """Takes a call back whose caller has gone; False: it is in the flow already."""
        if call.request.is_submitted or call not in self._waiting:
            return False
        self._waiting.remove(call)
        return True

    def _enter(self) -> None:
        if self._unread:
            self._is_due = True  # what is added now goes in below
            for call in self._unread.read():
                self._waiting.append(call)
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
