"""What a client is answered whose request failed: both protocols have the same document."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.admission import RefusedError, whole_seconds
from modelflow.serve.compression import EncodingError
from modelflow.serve.status import HTTP_STATUS, inside
from modelflow.wire.json_text import json_of
from modelflow.wire.problem import Code, Problem

__all__ = ["CHALLENGE", "JSON", "come_again", "refusal", "refusal_of", "settle"]

JSON: Mapping[str, str] = MappingProxyType({"content-type": "application/json"})
"""The headers of an answer that is a document."""

CHALLENGE = 'Bearer realm="modelflow"'
"""What somebody without a key is told to bring (``WWW-Authenticate``)."""

_COME_AGAIN = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)


def refusal(problem: Problem) -> Reply:
    """Returns the answer to a request that failed: ``{"error": "..."}``."""
    headers = dict(JSON)
    seconds = come_again(problem)
    if seconds is not None:
        headers["retry-after"] = str(seconds)
    if problem.code is Code.UNAUTHENTICATED:
        headers["www-authenticate"] = CHALLENGE
    status = HTTP_STATUS[problem.code]
    if isinstance(problem, EncodingError):  # which no protocol has but HTTP
        status, headers["accept-encoding"] = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem.known
    return Reply(status, json_of({"error": str(problem)}), headers)


def refusal_of(error: Exception) -> Reply:
    """Returns the answer to a request that failed, for whatever reason."""
    return refusal(error if isinstance(error, Problem) else inside(error))


def come_again(problem: Problem) -> int | None:
    """Returns the seconds after which a request may be sent again; None: that would not help."""
    if isinstance(problem, RefusedError):
        return whole_seconds(problem)
    return 1 if problem.code in _COME_AGAIN else None


def settle(exchange: Exchange, make: Callable[..., Reply], *given: Any) -> None:
    """Answers a request with what ``make`` makes of ``given``, or says why there is no answer."""
    try:
        reply = make(*given)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
        reply = refusal_of(error)
    exchange.answer(reply)
