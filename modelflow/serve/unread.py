"""Small requests that wait as they came, and are read together when they go in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from modelflow.http.exchange import Exchange
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.call import Call
from modelflow.wire.problem import Code

if TYPE_CHECKING:
    import numpy as np

    from modelflow.graph.graph_port import Signature
    from modelflow.serve.served_model import ServedModel

__all__ = ["Reader", "Unread", "UnreadRequest"]

UnreadRequest: TypeAlias = tuple[Exchange, float]
"""A request that is not read yet, and when it came."""

Reader: TypeAlias = Callable[["ServedModel", Sequence[UnreadRequest]], Iterable[Call]]
"""Makes calls of requests, by `Unread.begin`. One that becomes none it says with `give_up`."""


class Unread:
    """The requests to a model that nobody has read yet. For the server's thread.

    Those of a model whose only input is batched and of numbers, and that has no other signatures.

    Attributes:
        row_type: The type of those numbers; None: it is another model, and takes none.
    """

    def __init__(self, model: "ServedModel") -> None:
        """Takes what they are sent to; they count there from the beginning."""
        self._model = model
        self.row_type = _row_type(model.signature)
        self._waiting: dict[Exchange, float] = {}
        self._reader: Reader | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, exchange: Exchange, reader: Reader) -> bool:
        """Takes a request: it is read when this turn of the loop is over and there is room.

        Args:
            exchange: The request. Nobody says how long he waits for it.
            reader: What reads it; always the same one.

        Returns:
            False: it is not taken, and to be read now.

        Raises:
            RefusedError: there is no room for it.
        """
        model = self._model
        if self.row_type is None or model.others:
            return False
        model.reserve()
        self._reader = reader
        self._waiting[exchange] = SYSTEM_CLOCK.now()
        exchange.on_gone = partial(self._forget, exchange)
        return True

    def begin(
        self,
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Call], None],
        request: UnreadRequest,
    ) -> Call:
        """Makes a call of a request that is read now.

        Args:
            items: Those of each input.
            done: As for `ServedModel.send`.
            request: The request.
        """
        exchange, began = request
        model, visit = self._model, exchange.visit
        context = None if visit is None else visit.enter(model.name, model.version)
        call = Call(model, items, None, done, context=context)
        call.began = began
        if visit is not None:
            call.watch(visit)
        exchange.on_gone = call.cancel
        return call

    def give_up(self, exchange: Exchange) -> None:
        """Notes that a request becomes no call of this model."""
        exchange.on_gone = None
        self._model.left()

    def read(self) -> Iterable[Call]:
        """Reads all that are here; returns the calls that they become."""
        waiting, self._waiting = self._waiting, {}
        assert self._reader is not None  # it has come with the first of them
        return self._reader(self._model, [*waiting.items()])

    def _forget(self, exchange: Exchange) -> None:
        """Drops a request whose caller has gone."""
        if self._waiting.pop(exchange, None) is not None:
            self._model.left(Code.CANCELLED)


def _row_type(signature: "Signature") -> "np.dtype[Any] | None":
    if len(signature.inputs) != 1:
        return None
    (port,) = signature.inputs
    if port.tensor is None or not port.is_batched or port.tensor.dtype.kind not in "biuf":
        return None
    return port.tensor.dtype
