"""What a server takes of what clients send, beyond the bounds of connections and bodies."""

from dataclasses import dataclass, field

from modelflow.wire.json_outline import JsonLimits

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
    """

    requests: int = 1000
    elements: int = 1 << 29
