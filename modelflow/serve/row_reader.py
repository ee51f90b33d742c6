"""What reads requests of one row, many together, and writes what they are answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.buffer import Buffer

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelflow.serve.model import Model
    from modelflow.serve.served_model import ServedModel
    from modelflow.wire.problem import Problem

__all__ = ["Asker", "RowReader"]


class Asker(Protocol):
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
        """Makes of one of `answers` what `Asker.answer` takes."""

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

    def alone(self, asker: Any, model: "Model") -> None:
        """Answers a request that is to be read by itself, and has found its model already."""
