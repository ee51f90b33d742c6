"""One call over gRPC, from its metadata to its status. Knows ``grpc.aio``, with `calls.py`."""

from typing import TYPE_CHECKING, Any

import grpc

from modelflow.serve.grpc.service import Method
from modelflow.serve.reception import Reception
from modelflow.serve.refusal import CHALLENGE, come_again
from modelflow.serve.status import GRPC_STATUS
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Passage"]

_STATUS = {status.value[0]: status for status in grpc.StatusCode}
# A text goes out in the trailers, of which clients take 8 KiB; there a byte may become three.
_LONGEST_TEXT = 2000


class Passage:
    """A call on its way through the server. For the loop's thread.

    Attributes:
        visit: What is noted of it; None: nothing.
        bytes_in: Those of the messages that have come.
    """

    def __init__(self, reception: Reception, method: Method, context: Any) -> None:
        """Receives a call; `admit` checks whether it may be made."""
        self._reception = reception
        self._method = method
        self._context = context
        self._metadata: Sequence[Any] = context.invocation_metadata() or ()
        self.visit = reception.receive_call(method.path, self._metadata, context.peer)
        self.bytes_in = self._bytes_out = 0
        self._status: Code | None = Code.CANCELLED  # until it is said otherwise
        if self.visit is not None:
            context.set_trailing_metadata(tuple(self.visit.headers.items()))

    def admit(self) -> None:
        """Checks its key.

        Raises:
            Problem: it does not open the method.
        """
        self._reception.admit_call(self._metadata, self._method.group)

    def send(self, answer: Any) -> bytes:
        """Returns an answer as it goes out."""
        data: bytes = answer.SerializeToString()
        self._bytes_out += len(data)
        return data

    def succeed(self) -> None:
        """Notes that all of it was answered."""
        self._status = None

    async def abort(self, problem: Problem) -> None:
        """Ends the call with a problem; raises what ``grpc.aio`` wants to see then."""
        self._status = problem.code
        metadata = [] if self.visit is None else [*self.visit.headers.items()]
        seconds = come_again(problem)
        if seconds is not None:
            metadata.append(("retry-after", str(seconds)))
        if problem.code is Code.UNAUTHENTICATED:
            metadata.append(("www-authenticate", CHALLENGE))
        text = str(problem).encode()[:_LONGEST_TEXT].decode(errors="ignore")
        await self._context.abort(_STATUS[GRPC_STATUS[problem.code]], text, tuple(metadata))

    def end(self) -> None:
        """Notes that it is over."""
        if self.visit is not None:
            self.visit.end(self._status or "OK", self.bytes_in, self._bytes_out)
