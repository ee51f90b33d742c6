"""What a client is answered whose request failed: both protocols have the same document."""

from collections.abc import Mapping
from types import MappingProxyType

from modelflow.http.reply import Reply
from modelflow.serve.admission import RefusedError, whole_seconds
from modelflow.serve.status import HTTP_STATUS
from modelflow.wire.json_text import json_of
from modelflow.wire.problem import Code, Problem

__all__ = ["JSON", "refusal"]

JSON: Mapping[str, str] = MappingProxyType({"content-type": "application/json"})
"""The headers of an answer that is a document."""

_COME_AGAIN = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)


def refusal(problem: Problem) -> Reply:
    """Returns the answer to a request that failed: ``{"error": "..."}``."""
    headers = dict(JSON)
    if isinstance(problem, RefusedError):
        headers["retry-after"] = str(whole_seconds(problem))
    elif problem.code in _COME_AGAIN:
        headers["retry-after"] = "1"
    return Reply(HTTP_STATUS[problem.code], json_of({"error": str(problem)}), headers)
