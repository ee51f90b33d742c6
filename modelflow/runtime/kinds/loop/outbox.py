"""Behind a loop unit: what goes round, and what leaves."""

from collections.abc import Sequence

from modelflow.runtime.kinds.loop.looping import LoopOrder
from modelflow.runtime.locks import make_lock
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.segment import Batch, Columns
from modelflow.runtime.stages.outbox import Outbox, Route
from modelflow.runtime.worker_slot import Handoff


class LoopOutbox(Outbox):
    """Sends what goes round and what leaves, each in its order."""

    def __init__(
        self, routes: Sequence[Route], inbox: Inbox, order: LoopOrder, exit_port: int
    ) -> None:
        """Takes, beside the routes, the inbox with its order, and which output is the exit."""
        super().__init__(routes, None, 0)
        self._loop = inbox
        self._order = order
        self._exit = exit_port
        self._turn = make_lock("outbox")

    def emit(
        self, batch: Batch, results: Columns, has_errors: bool, handoff: Handoff | None = None
    ) -> None:
        """Sends on what has settled; does not wait."""
        with self._turn:
            leaving, going = self._loop.change(
                lambda: self._order.settle(batch, results, has_errors, self._exit)
            )
            told = self._send([[leaving, going] if self._exit == 0 else [going, leaving]], handoff)
        self._loop.call_due()
        for receiver in told:
            receiver.call_due()
