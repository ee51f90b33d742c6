"""The outbox of a loop, for rows that go round and rows that leave."""

from collections.abc import Sequence

from modelflow.runtime.kinds.loop.looping import LoopOrder
from modelflow.runtime.locks import make_lock
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.segment import Batch, Columns
from modelflow.runtime.stages.outbox import Outbox, Route
from modelflow.runtime.worker_slot import Handoff


class LoopOutbox(Outbox):
    """The outbox that sends rows round or to the exit, each in their order."""

    def __init__(
        self, routes: Sequence[Route], inbox: Inbox, order: LoopOrder, exit_port: int
    ) -> None:
        """Creates the outbox of a loop.

        Args:
            routes: The receivers of each output.
            inbox: The loop's own inbox.
            order: The order of that inbox.
            exit_port: The place of the exit among the outputs.
        """
        super().__init__(routes, None, 0)
        self._loop = inbox
        self._order = order
        self._exit = exit_port
        self._turn = make_lock("outbox")

    def emit(
        self, batch: Batch, results: Columns, has_errors: bool, handoff: Handoff | None = None
    ) -> None:
        """Sends the results of a batch as far as their order allows; does not wait."""
        with self._turn:
            leaving, going = self._loop.change(
                lambda: self._order.settle(batch, results, has_errors, self._exit)
            )
            told = self._send([[leaving, going] if self._exit == 0 else [going, leaving]], handoff)
        self._loop.call_due()
        for receiver in told:
            receiver.call_due()
