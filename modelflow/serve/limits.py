"""What a server takes of what clients send, beyond the bounds of connections and bodies."""

from dataclasses import dataclass, field

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.problem import Code, Problem

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
        expanded: Most bytes of examples, each with the context that they share.
    """

    requests: int = 1000
    elements: int = 1 << 29
    expanded: int = 64 << 20

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
