"""Small requests that wait unread and are read together when they go in."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from modelflow.buffer import Buffer
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.requests.request_batch import RequestBatch
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.graph.graph_port import Signature
    from modelflow.serve.requests.model import Model
    from modelflow.serve.requests.served_model import ServedModel


class Responder(Protocol):
    """A small request, whatever protocol it came by, and who waits for its answer.

    Attributes:
        body: What was sent.
        is_over: It is answered, or who asks has gone away.
        on_gone: Called when who asks has gone away; to be set.
    """

    body: Any
    is_over: bool
    on_gone: Any

    def answer(self, reply: Any, /) -> None:
        """Answers; a second answer, or one to somebody who has gone, is dropped."""


class RowReader(Protocol):
    """Reads requests of a protocol that ask for one row each, and writes their answers."""

    @property
    def reply(self) -> Callable[[Any], Any]:
        """Makes of one of `answers` what `Responder.answer` takes."""

    @property
    def refusal(self) -> Callable[["Problem"], Any]:
        """Makes the same of what went wrong."""

    def rows(
        self, bodies: Sequence[Any], model: "ServedModel"
    ) -> "tuple[Sequence[int], npt.NDArray[Any]]":
        """Returns which bodies ask for one row, each fit for the model, and these rows.

        The others are to be read by themselves.
        """

    def answers(
        self, model: "ServedModel", found: Mapping[str, Sequence[Buffer]]
    ) -> "Sequence[Any | Problem]":
        """Returns what each row is answered: of each output a buffer for each row has come."""

    def alone(self, responder: Any, model: "Model") -> None:
        """Answers one request the usual way; its model is known."""


logger = logging.getLogger(__name__)


class PendingRequests:
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
        self._requests: list[Responder] = []
        self._began: list[float] = []  # when each of them came
        self._reader: RowReader | None = None
        self._is_limited = False

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, requests: Sequence[Responder], reader: RowReader) -> None:
        """Takes requests that have come together: they are read when there is room in the graph.

        Those for which the model has no room are refused.

        Args:
            requests: Nobody of them says how long he waits.
            reader: What reads them; always the same one for a model.
        """
        model = self._model
        if self.row_type is None or model.others:
            for responder in requests:
                reader.alone(responder, model)
            return
        room = model.room(len(requests))
        taken = requests[:room]
        model.admission.take(len(taken))
        for responder in taken:
            responder.on_gone = self._on_cancel
        self._reader = reader
        self._requests += taken
        self._began += [SYSTEM_CLOCK.now()] * len(taken)
        if len(taken) < len(requests):
            reply = reader.refusal(model.admission.refuse(len(requests) - len(taken)))
            for responder in requests[room:]:
                responder.answer(reply)

    def wait(self) -> None:
        """Waits for room in the graph: those that wait too long are given up."""
        if not self._is_limited and self._requests:
            self._is_limited = True
            self._model.time_limit.add_oldest(self, self._waiting())

    def _waiting(self) -> "list[tuple[Responder, float]]":
        return [*zip(self._requests, self._began, strict=True)]

    def give_up(self, _: Problem) -> None:
        """Refuses those that have waited as long as any may; see `TimeLimit.add_oldest`."""
        self._is_limited = False
        waiting, reader, limit = self._waiting(), self._reader, self._model.time_limit
        assert reader is not None  # it has come with the first of them
        problem = limit.problem()
        reply = reader.refusal(problem)
        for place in limit.list_late(waiting):
            self._model.on_done(problem.code)
            waiting[place][0].answer(reply)
        self.wait()

    def read(self) -> RequestBatch | None:
        """Reads all that are here; returns those that go on together, None: none do."""
        waiting = [each for each in self._waiting() if not each[0].is_over]
        if self._is_limited:
            self._is_limited = False
            self._model.time_limit.forget(self)
        self._requests, self._began = [], []
        if not waiting:
            return None
        model, reader = self._model, self._reader
        assert reader is not None  # it has come with the first of them
        places, rows = self._rows(reader, [responder.body for responder, _ in waiting])
        if len(places) < len(waiting):
            for place in sorted({*range(len(waiting))}.difference(places)):
                responder, _ = waiting[place]
                responder.on_gone = _nothing
                model.on_done()
                reader.alone(responder, model)
            waiting = [waiting[place] for place in places]
        if not waiting:
            return None
        rows.flags.writeable = False  # units see them as they are
        return RequestBatch(model, reader, waiting, [*map(Buffer, rows)])

    def _rows(
        self, reader: RowReader, bodies: Sequence[Any]
    ) -> "tuple[Sequence[int], npt.NDArray[Any]]":
        try:
            return reader.rows(bodies, self._model)
        except Exception:
            logger.exception("requests could not be read together; each is read by itself")
            return (), np.empty(0)

    def _on_cancel(self) -> None:
        """Notes that who asked has gone before its request was read."""
        self._model.on_done(Code.CANCELLED)


def _row_type(signature: "Signature") -> "np.dtype[Any] | None":
    if len(signature.inputs) != 1 or not signature.outputs:
        return None
    (port,) = signature.inputs
    if port.tensor is None or not port.is_batched or port.tensor.dtype.kind not in "biuf":
        return None
    return port.tensor.dtype


def _nothing() -> None:
    """What is called where nobody works on a request yet."""
