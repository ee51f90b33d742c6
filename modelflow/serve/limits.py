"""What a server takes of what clients send, beyond the bounds of connections and bodies."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from modelflow.serve.options import ServeOptions

__all__ = ["ModelLimits", "ReadLimits"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What the body of a request may hold.

    Attributes:
        decompressed: Most bytes of one that was sent compressed.
        json: What a JSON document may hold.
    """

    decompressed: int = 64 << 20
    json: JsonLimits = field(default_factory=JsonLimits)


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What each model takes.

    Attributes:
        requests: Most requests that have no answer yet.
        elements: Most elements of one tensor.
        rows: Most items of one request.
        expanded: Most bytes of examples, each with the context that they share.
        seconds: How long a request may take.
        load_seconds: How long a version may take to load.
    """

    requests: int = 1000
    elements: int = 1 << 29
    expanded: int = 64 << 20
    rows: int = 1 << 17
    seconds: float = 600.0
    load_seconds: float = 600.0

    @classmethod
    def of(cls, options: "ServeOptions") -> Self:
        """Returns what the options say."""
        return cls(
            options.max_requests,
            options.max_tensor_elements,
            options.expanded,
            options.max_rows,
            options.request_timeout,
            options.load_timeout,
        )

    def check_elements(self, count: int, where: str) -> None:
        """Checks how many elements a tensor has.

        Args:
            count: So many.
            where: Which it is, for the message.

        Raises:
            Problem: they are too many.
        """
        if count > self.elements:
            message = f"{where}: {count} elements; at most {self.elements} are taken"
            raise Problem(message, Code.RESOURCE_EXHAUSTED)

    def check_rows(self, count: int, where: str) -> None:
        """Checks how many items a request has, each of which costs more than its bytes.

        Args:
            count: So many.
            where: Of which input, for the message.

        Raises:
            Problem: they are too many.
        """
        if count > self.rows:
            message = f"{where}: {count} rows; at most {self.rows} are taken in one request"
            raise Problem(message, Code.RESOURCE_EXHAUSTED)

    def check_expanded(self, length: int) -> None:
        """Checks how many bytes examples have.

        Raises:
            Problem: they are too many.
        """
        if length > self.expanded:
            message = (
                f"the examples have more than {self.expanded} bytes, each with the context; send "
                "fewer of them, or less context"
            )
            raise Problem(message, Code.RESOURCE_EXHAUSTED)
