"""What is answered to a request that becomes no call."""

from typing import TYPE_CHECKING

from modelflow.serve.grpc.http2.call_head import ACCEPTED, CallHead, trailers_of
from modelflow.serve.grpc.passage import ending_of
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from zttp import Request, Stream

__all__ = ["end_stream", "refuse_call", "refuse_request"]

_NO_ERROR = 0


def refuse_request(request: "Request", head: CallHead, stream: "Stream") -> bool:
    """Answers what is no call over gRPC, as HTTP does; False: it is one."""
    if request.method != b"POST":
        stream.send_response(405, [(b"allow", b"POST")], end_stream=True)
    elif not head.is_grpc:
        stream.send_response(415, [(b"accept", b"application/grpc")], end_stream=True)
    else:
        return False
    end_stream(stream, is_heard=request.end_stream)
    return True


def refuse_call(problem: Problem, stream: "Stream", *, is_heard: bool) -> None:
    """Answers a call that does not begin."""
    trailers = trailers_of(ending_of(problem))
    stream.send_response(200, ACCEPTED + trailers, end_stream=True)
    end_stream(stream, is_heard=is_heard)


def end_stream(stream: "Stream", *, is_heard: bool) -> None:
    """Ends a stream that is answered whole; nothing more is read of it."""
    if not is_heard:
        stream.reset(_NO_ERROR)
