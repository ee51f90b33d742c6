"""One call over gRPC, from its metadata to its status."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelflow.serve.access.error_reply import CHALLENGE, seconds_until_retry
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.service import Method
from modelflow.serve.requests.status import GRPC_STATUS
from modelflow.wire.problem import Code, Problem

# A text goes out in the trailers, of which clients take 8 KiB; there a byte may become three.
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class CallStatus:
    """How a call that failed ends.

    Attributes:
        status: gRPC's number.
        text: What the client is told, at most 2000 bytes of UTF-8.
        metadata: Names and values of the trailers.
    """

    status: int
    text: str
    metadata: tuple[tuple[str, str], ...]


class GrpcInterceptor:
    """A call on its way through the server, whichever server that is. For the loop's thread.

    Attributes:
        request_context: What is noted of it; None: nothing.
        bytes_in: Those of the messages that have come.
    """

    __slots__ = (
        "_bytes_out",
        "_metadata",
        "_method",
        "_middleware",
        "_status",
        "bytes_in",
        "request_context",
    )

    def __init__(
        self,
        middleware: Middleware,
        method: Method,
        metadata: Sequence[Any],
        peer: Callable[[], str],
    ) -> None:
        """Receives a call; `admit` checks whether it may be made.

        Args:
            middleware: What every call passes first.
            method: What is called.
            metadata: Names in lower case, and values.
            peer: Gives the client's address, as gRPC says it: ``ipv4:127.0.0.1:50000``.
        """
        self._middleware = middleware
        self._method = method
        self._metadata = metadata
        self.request_context = middleware.receive_call(method.path, method.group, metadata, peer)
        self.bytes_in = self._bytes_out = 0
        self._status: Code | None = Code.CANCELLED  # until it is said otherwise

    @property
    def trailers(self) -> tuple[tuple[str, str], ...]:
        """The metadata that the call ends with, if it does not fail."""
        return () if self.request_context is None else tuple(self.request_context.headers.items())

    def admit(self) -> None:
        """Checks its key.

        Raises:
            Problem: it does not open the method.
        """
        self._middleware.admit_call(self._metadata, self._method.group)

    def send(self, answer: Any) -> bytes:
        """Returns an answer as it goes out."""
        data: bytes = answer.SerializeToString()
        self._bytes_out += len(data)
        return data

    def succeed(self) -> None:
        """Notes that all of it was answered."""
        self._status = None

    def fail(self, problem: Problem) -> CallStatus:
        """Notes that it fails; returns what its client is told."""
        self._status = problem.code
        return ending_of(problem, self.trailers)

    def end(self) -> None:
        """Notes that it is over."""
        if self.request_context is not None:
            self.request_context.end(self._status or "OK", self.bytes_in, self._bytes_out)


def ending_of(problem: Problem, trailers: Iterable[tuple[str, str]] = ()) -> CallStatus:
    """Returns what a client is told of a problem, beside other trailers."""
    metadata = [*trailers]
    seconds = seconds_until_retry(problem)
    if seconds is not None:
        metadata.append(("retry-after", str(seconds)))
    if problem.code is Code.UNAUTHENTICATED:
        metadata.append(("www-authenticate", CHALLENGE))
    text = str(problem).encode()[:_LONGEST_TEXT].decode(errors="ignore")
    return CallStatus(GRPC_STATUS[problem.code], text, tuple(metadata))
