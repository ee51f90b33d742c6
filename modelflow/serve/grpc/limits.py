"""What calls over gRPC may cost, whichever server takes them."""

from dataclasses import dataclass, field
from typing import Self

from modelflow.http.options import ConnectionLimits
from modelflow.http.reply import BodyBudget
from modelflow.serve.options import ServeOptions

AHEAD = 64
"""So many messages of a stream are worked on at once; the client's further ones wait outside."""


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """What calls may cost.

    Attributes:
        message: Most bytes of a message that comes, also when it is decompressed; a longer one is
            answered RESOURCE_EXHAUSTED.
        messages: Where the bytes of those that are worked on are taken from.
        calls: Most calls at once, open streams among them; one more is answered RESOURCE_EXHAUSTED.
        streams: Most calls at once of one connection; further ones wait in the client.
        message_time_out: Seconds within which a message that has begun must be there.
        connections: What connections may cost: the metadata of a call (`header_bytes`), the time
            until TLS and HTTP/2 are there (`header_time_out`), and how many there may be.
    """

    message: int
    messages: BodyBudget
    calls: int
    streams: int = 1000
    message_time_out: float = 30.0
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)

    @classmethod
    def of(cls, options: ServeOptions, messages: BodyBudget) -> Self:
        """Returns what the options say."""
        return cls(
            options.max_body,
            messages,
            options.max_calls,
            options.max_streams,
            options.body_time_out,
            options.connections,
        )
