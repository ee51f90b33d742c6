"""The status of each failure, the same for every protocol over HTTP and gRPC."""

import logging
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from modelflow.errors import (
    Cancelled,
    DeadlineExceeded,
    FlowUnitError,
    ModelflowError,
    NoReplicaError,
    QueueFullError,
    StreamClosed,
)
from modelflow.wire.problem import Code, Problem

logger = logging.getLogger(__name__)

T = TypeVar("T")

HTTP_STATUS: Mapping[Code, int] = MappingProxyType(
    {
        Code.INVALID_ARGUMENT: 400,
        Code.FAILED_PRECONDITION: 400,
        Code.OUT_OF_RANGE: 400,
        Code.UNAUTHENTICATED: 401,
        Code.PERMISSION_DENIED: 403,
        Code.NOT_FOUND: 404,
        Code.ALREADY_EXISTS: 409,
        Code.ABORTED: 409,
        Code.RESOURCE_EXHAUSTED: 429,
        Code.CANCELLED: 499,
        Code.UNKNOWN: 500,
        Code.INTERNAL: 500,
        Code.DATA_LOSS: 500,
        Code.UNIMPLEMENTED: 501,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE_EXCEEDED: 504,
    }
)
"""The HTTP status codes, as in TensorFlow Serving's ``http_rest_api_util``."""

GRPC_STATUS: Mapping[Code, int] = MappingProxyType(
    {
        Code.CANCELLED: 1,
        Code.UNKNOWN: 2,
        Code.INVALID_ARGUMENT: 3,
        Code.DEADLINE_EXCEEDED: 4,
        Code.NOT_FOUND: 5,
        Code.ALREADY_EXISTS: 6,
        Code.PERMISSION_DENIED: 7,
        Code.RESOURCE_EXHAUSTED: 8,
        Code.FAILED_PRECONDITION: 9,
        Code.ABORTED: 10,
        Code.OUT_OF_RANGE: 11,
        Code.UNIMPLEMENTED: 12,
        Code.INTERNAL: 13,
        Code.UNAVAILABLE: 14,
        Code.DATA_LOSS: 15,
        Code.UNAUTHENTICATED: 16,
    }
)
"""The gRPC status codes (``google.rpc.Code``)."""


def problem_of(error: Exception, item: int | None = None) -> Problem:
    """Returns the error that the client receives.

    Args:
        error: A `Problem`, an error of a flow or a buffer, or a bug in the server. For a bug, the
            client receives only an id.
        item: The item of the request, counted from 0. None if the request has a single item.
    """
    if isinstance(error, Problem):
        return error
    told = _describe(error, item) if isinstance(error, ModelflowError) else None
    return told or _hide(error)


def _describe(error: ModelflowError, item: int | None) -> Problem | None:
    """Returns the error for the client, or None if the details must stay inside the server."""
    cause = error.__cause__ if isinstance(error, FlowUnitError) and error.__cause__ else error
    at = "" if item is None else f"item {item}: "
    match cause:
        case DeadlineExceeded():
            text, code = "its deadline passed before it was computed", Code.DEADLINE_EXCEEDED
        case QueueFullError():
            text, code = str(cause), Code.RESOURCE_EXHAUSTED
        case Cancelled():
            text, code = "the request was cancelled", Code.CANCELLED
        case StreamClosed():
            text, code = "the server is being stopped", Code.UNAVAILABLE
        case NoReplicaError():
            at_node = f"node {error.node!r}: " if isinstance(error, FlowUnitError) else ""
            text, code = f"{at_node}no replica is available; try again", Code.UNAVAILABLE
        case _ if isinstance(error, FlowUnitError):
            if not error.is_refusal:
                return None
            text, code = f"node {error.node!r}: {cause}", Code.INVALID_ARGUMENT
        case ValueError():
            text, code = str(cause), Code.INVALID_ARGUMENT
        case _:
            return None
    return Problem(at + text, code)


def _hide(error: Exception) -> Problem:
    """Logs an internal failure under an id, and returns the error with that id for the client."""
    number = uuid.uuid4().hex[:12]
    cause = error.__cause__ if isinstance(error, FlowUnitError) else None
    logger.error("request %s failed: %s", number, error, exc_info=cause or error)
    text = f"the request failed inside the server, whose log tells why under the id {number}"
    return Problem(text, Code.INTERNAL)


def attempt(make: Callable[..., T], *given: Any) -> T | Problem:
    """Returns the result of ``make``, or the error for the client if the call raises."""
    try:
        return make(*given)
    except Exception as error:  # noqa: BLE001 - the other requests are answered
        return problem_of(error)
