"""Error replies, the same JSON for both protocols, and compressed bodies."""

import re
import zlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.requests.admission import OverloadedError, whole_seconds
from modelflow.serve.requests.status import HTTP_STATUS, problem_of
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import Code, Problem, refuse

# The `wbits` of zlib for each encoding. HTTP's `deflate` is zlib's format (RFC 9110, 8.4.1.2).
_WINDOWS: Mapping[str, int] = MappingProxyType({"gzip": 31, "deflate": 15})
_NONE = re.compile(r"q\s*=\s*0(\.0*)?")
# The shortest body worth compressing, in bytes.
_LEAST = 1024


class EncodingError(Problem):
    """The error for a body with an unknown compression, answered with HTTP's 415.

    Attributes:
        known: The known encodings, in the form of ``Accept-Encoding``.
    """

    known = ", ".join(_WINDOWS)


def whole_body(http_request: HttpRequest, most: int) -> bytes:
    """Returns the body of a request after decompression.

    Args:
        http_request: The request.
        most: The limit on the decompressed body, in bytes.

    Raises:
        EncodingError: The encoding of the body is unknown.
        Problem: The body is damaged or too long.
    """
    encoding = (
        http_request.head.named.get(b"content-encoding", b"identity").decode("latin-1").lower()
    )
    if encoding == "identity":
        return http_request.body
    window = _WINDOWS.get(encoding)
    if window is None:
        raise EncodingError(f"Content-Encoding: {encoding!r}; expected gzip, deflate or identity")
    reader = zlib.decompressobj(window)
    try:
        body = reader.decompress(http_request.body, most + 1)
    except zlib.error as error:
        refuse(f"the body is no {encoding}: {error}", cause=error)
    if len(body) > most:
        refuse(f"the body has more than {most} bytes when it is decompressed")
    if not reader.eof:
        refuse(f"the body ends in the middle of its {encoding}")
    return body


def compress_reply(http_request: HttpRequest, reply: Reply) -> Reply:
    """Returns the reply, compressed if its body is long and the client accepts compression."""
    if len(reply.body) < _LEAST:
        return reply
    accepted = _list_accepted(
        http_request.head.named.get(b"accept-encoding", b"").decode("latin-1")
    )
    encoding = next((name for name in _WINDOWS if name in accepted), None)
    if encoding is None:
        return reply
    writer = zlib.compressobj(level=1, wbits=_WINDOWS[encoding])
    body = writer.compress(reply.body) + writer.flush()
    return Reply(reply.status, body, {**reply.headers, "content-encoding": encoding})


def _list_accepted(header: str) -> set[str]:
    """Returns the encodings in ``Accept-Encoding`` except encodings with ``q=0``."""
    found = set()
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        if not _NONE.fullmatch(weight.strip()):
            found.add(name.strip())
    return found


JSON: Mapping[str, str] = MappingProxyType({"content-type": "application/json"})
"""The headers of a JSON reply."""

CHALLENGE = 'Bearer realm="modelflow"'
"""The ``WWW-Authenticate`` header of a reply to a request without a valid key."""

_COME_AGAIN = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)


def refusal(problem: Problem) -> Reply:
    """Returns the error reply for a problem: ``{"error": "..."}``."""
    headers = dict(JSON)
    seconds = seconds_until_retry(problem)
    if seconds is not None:
        headers["retry-after"] = str(seconds)
    if problem.code is Code.UNAUTHENTICATED:
        headers["www-authenticate"] = CHALLENGE
    status = HTTP_STATUS[problem.code]
    if isinstance(problem, EncodingError):  # HTTP only: gRPC's codes have no 415
        status, headers["accept-encoding"] = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem.known
    return Reply(status, json_of({"error": str(problem)}), headers)


def refusal_of(error: Exception) -> Reply:
    """Returns the error reply for any exception."""
    return refusal(problem_of(error))


def seconds_until_retry(problem: Problem) -> int | None:
    """Returns the seconds until a retry makes sense, or None if a retry cannot help."""
    if isinstance(problem, OverloadedError):
        return whole_seconds(problem)
    return 1 if problem.code in _COME_AGAIN else None


def settle(http_request: HttpRequest, make: Callable[..., Reply], *given: Any) -> None:
    """Answers a request with the reply that ``make(*given)`` returns, or with its error."""
    try:
        reply = make(*given)
    except Exception as error:  # noqa: BLE001 - the client must get a reply to any error
        reply = refusal_of(error)
    http_request.answer(reply)


def answer_change(http_request: HttpRequest, error: Exception | None) -> None:
    """Answers a request for a change of the server, such as the load of a model.

    Args:
        http_request: The request.
        error: The reason why the change failed, or None for an empty reply.
    """

    def make_reply() -> Reply:
        if error is not None:
            raise error
        return Reply(200, b"", {})

    settle(http_request, make_reply)
