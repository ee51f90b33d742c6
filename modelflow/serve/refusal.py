"""What a client is answered whose request failed: both protocols have the same document."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.status import COME_AGAIN, HTTP_STATUS, inside
from modelflow.wire.json_text import json_of
from modelflow.wire.problem import Problem

__all__ = ["JSON", "refusal", "settle"]

JSON: Mapping[str, str] = MappingProxyType({"content-type": "application/json"})
"""The headers of an answer that is a document."""


def refusal(problem: Problem) -> Reply:
    """Returns the answer to a request that failed: ``{"error": "..."}``."""
    headers = dict(JSON)
    if problem.code in COME_AGAIN:
        headers["retry-after"] = "1"
    return Reply(HTTP_STATUS[problem.code], json_of({"error": str(problem)}), headers)


def settle(exchange: Exchange, make: Callable[[], Reply]) -> None:
    """Answers a request with what ``make`` makes, or says why there is no answer."""
    try:
        reply = make()
    except Problem as problem:
        reply = refusal(problem)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
        reply = refusal(inside(error))
    exchange.answer(reply)
