"""The steps that every gRPC call passes, from its metadata to its status."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modelflow.serve.access.error_reply import CHALLENGE, seconds_until_retry
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.access.quotas import Quota, Resource
from modelflow.serve.grpc.service import Method, Rpc
from modelflow.serve.requests.status import GRPC_STATUS
from modelflow.wire.problem import Code, Problem

# Bytes of an error text. Trailers contain the text, and percent-encoding may triple its length.
# Clients accept 8 KiB of trailers.
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class CallStatus:
    """The status of a failed call.

    Attributes:
        status: The number of the gRPC status.
        text: The error message for the client, at most 2000 bytes of UTF-8.
        metadata: The names and values of the trailers.
    """

    status: int
    text: str
    metadata: tuple[tuple[str, str], ...]


class GrpcInterceptor:
    """The middleware steps of one call, for both gRPC servers. Call it on the loop's thread.

    Attributes:
        request_context: The context of the call, or None if the call needs no context.
        bytes_in: The bytes of the received messages.
    """

    __slots__ = (
        "_bytes_out",
        "_metadata",
        "_method",
        "_middleware",
        "_quota",
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
        """Creates the context of a call. `admit` checks the API key afterwards.

        Args:
            middleware: The checks for every call.
            method: The called method.
            metadata: Names in lower case, with values.
            peer: Returns the client's address in gRPC's form: ``ipv4:127.0.0.1:50000``.
        """
        self._middleware = middleware
        self._method = method
        self._metadata = metadata
        self.request_context = middleware.receive_call(method.path, method.group, metadata, peer)
        self.bytes_in = self._bytes_out = 0
        self._quota: Quota | None = None
        self._status: Code | None = Code.CANCELLED  # unless `succeed` or `fail` is called

    @property
    def trailers(self) -> tuple[tuple[str, str], ...]:
        """Returns the trailers of a successful call."""
        return () if self.request_context is None else tuple(self.request_context.headers.items())

    def admit(self) -> None:
        """Checks the API key of the call.

        Raises:
            Problem: The key does not open the method.
        """
        self._quota = self._middleware.admit_call(self._metadata, self._method.group)
        if self._quota is not None and self.request_context is not None:
            self.request_context.limit(self._quota)

    def begin(self, rpc: Rpc, data: bytes) -> None:
        """Passes a message to its handler, which answers now or later.

        The client gets an error if its key has reached a limit on requests.
        """
        if self._quota is not None:
            try:
                self._quota.take(Resource.REQUESTS)
            except Problem as problem:
                rpc.refuse(problem)
                return
        self._method.begin(rpc, data)
        context = self.request_context
        if context is not None and context.payload is not None:
            context.payload.receive(data, context.identity)

    def send(self, answer: Any) -> bytes:
        """Returns the bytes of a reply message, and counts the bytes."""
        data: bytes = answer.SerializeToString()
        self._bytes_out += len(data)
        context = self.request_context
        if context is not None and context.payload is not None:
            context.payload.send(data, context.identity)
        return data

    def succeed(self) -> None:
        """Records that the whole call was answered."""
        self._status = None

    def fail(self, problem: Problem) -> CallStatus:
        """Records that the call failed. Returns the status for the client."""
        self._status = problem.code
        return ending_of(problem, self.trailers)

    def end(self) -> None:
        """Records the end of the call."""
        if self.request_context is not None:
            self.request_context.end(self._status or "OK", self.bytes_in, self._bytes_out)


def ending_of(problem: Problem, trailers: Iterable[tuple[str, str]] = ()) -> CallStatus:
    """Returns the status for a problem, with additional trailers."""
    metadata = [*trailers]
    seconds = seconds_until_retry(problem)
    if seconds is not None:
        metadata.append(("retry-after", str(seconds)))
    if problem.code is Code.UNAUTHENTICATED:
        metadata.append(("www-authenticate", CHALLENGE))
    text = str(problem).encode()[:_LONGEST_TEXT].decode(errors="ignore")
    return CallStatus(GRPC_STATUS[problem.code], text, tuple(metadata))
