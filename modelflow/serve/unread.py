"""Small requests that a model takes as they came, and reads together when they go in."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.http.exchange import Exchange
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.convoy import Convoy
from modelflow.serve.refusal import refusal
from modelflow.serve.row_reader import RowReader
from modelflow.wire.problem import Code

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.graph.graph_port import Signature
    from modelflow.serve.served_model import ServedModel

__all__ = ["Unread"]

logger = logging.getLogger(__name__)


class Unread:
    """The requests to a model that nobody has read yet. For the server's thread.

    Those of a model whose only input is batched and of numbers, that has outputs and no other
    signatures, and through whose graph each row goes by itself.

    Attributes:
        row_type: The type of those numbers; None: it is another model, and takes none.
    """

    def __init__(self, model: "ServedModel") -> None:
        """Takes what they are sent to; they count there from the beginning."""
        self._model = model
        self.row_type = _row_type(model.signature) if model.flow.is_row_by_row else None
        self._requests: list[Exchange] = []
        self._began: list[float] = []  # when each of them came
        self._reader: RowReader | None = None

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, requests: Sequence[Exchange], reader: RowReader) -> None:
        """Takes requests that have come together: they are read when there is room in the graph.

        Those for which the model has no room are refused.

        Args:
            requests: Nobody of them says how long he waits.
            reader: What reads them; always the same one for a model.
        """
        model = self._model
        if self.row_type is None or model.others:
            for exchange in requests:
                reader.alone(exchange, model)
            return
        room = model.room(len(requests))
        taken = requests[:room]
        model.admission.take(len(taken))
        for exchange in taken:
            exchange.on_gone = self._gone
        self._reader = reader
        self._requests += taken
        self._began += [SYSTEM_CLOCK.now()] * len(taken)
        if len(taken) < len(requests):
            reply = refusal(model.admission.refuse(len(requests) - len(taken)))
            for exchange in requests[room:]:
                exchange.answer(reply)

    def read(self) -> Convoy | None:
        """Reads all that are here; returns those that go on together, None: none do."""
        waiting = [
            (exchange, began)
            for exchange, began in zip(self._requests, self._began, strict=True)
            if not exchange.is_over  # who asked has gone
        ]
        self._requests, self._began = [], []
        if not waiting:
            return None
        model, reader = self._model, self._reader
        assert reader is not None  # it has come with the first of them
        places, rows = self._rows(reader, [exchange.body for exchange, _ in waiting])
        if len(places) < len(waiting):
            for place in sorted({*range(len(waiting))}.difference(places)):
                exchange, _ = waiting[place]
                exchange.on_gone = None
                model.left()
                reader.alone(exchange, model)
            waiting = [waiting[place] for place in places]
        if not waiting:
            return None
        rows.flags.writeable = False  # units see them as they are
        return Convoy(model, reader, waiting, [*map(Buffer, rows)])

    def _rows(
        self, reader: RowReader, bodies: Sequence[bytes]
    ) -> "tuple[Sequence[int], npt.NDArray[Any]]":
        try:
            return reader.rows(bodies, self._model)
        except Exception:
            logger.exception("requests could not be read together; each is read by itself")
            return (), np.empty(0)

    def _gone(self) -> None:
        """Notes that who asked has gone before its request was read."""
        self._model.left(Code.CANCELLED)


def _row_type(signature: "Signature") -> "np.dtype[Any] | None":
    if len(signature.inputs) != 1 or not signature.outputs:
        return None
    (port,) = signature.inputs
    if port.tensor is None or not port.is_batched or port.tensor.dtype.kind not in "biuf":
        return None
    return port.tensor.dtype
