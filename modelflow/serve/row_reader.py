"""What reads requests of one row, many together, and writes what they are answered."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.buffer import Buffer
from modelflow.http.exchange import Exchange

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.graph.graph_port import GraphPort
    from modelflow.serve.model import Model
    from modelflow.serve.served_model import ServedModel
    from modelflow.wire.problem import Problem

__all__ = ["RowReader"]


class RowReader(Protocol):
    """Reads requests of a protocol that ask for one row each, and writes their answers."""

    def rows(
        self, bodies: Sequence[bytes], model: "ServedModel"
    ) -> "tuple[Sequence[int], npt.NDArray[Any]]":
        """Returns which bodies ask for one row, each fit for the model, and these rows.

        The others are to be read by themselves.
        """

    def answers(
        self, ports: "Mapping[str, GraphPort]", found: Mapping[str, Sequence[Buffer]]
    ) -> "Sequence[bytes | Problem]":
        """Returns what each row is answered: of each output a buffer for each row has come."""

    def alone(self, exchange: Exchange, model: "Model") -> None:
        """Answers a request that is to be read by itself, and has found its model already."""
