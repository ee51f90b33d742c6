"""What is answered: from a buffer's data and meta, or from its error."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError

__all__ = ["Reply", "reply_of", "reply_of_error", "reply_of_status"]

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a request.

    Attributes:
        status: The HTTP status.
        body: What is sent.
        headers: Name -> value.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def reply_of(
    buffer: Buffer, content_type: str = "", asked: Mapping[str, str] | None = None
) -> Reply:
    """Returns what a buffer answers: bytes and text as they are, anything else as JSON.

    Args:
        buffer: Its meta ``status`` (200) and ``headers`` (a mapping) are obeyed.
        content_type: Of the body; ``""``: by its type.
        asked: The request's own headers, which the meta may still be.

    Raises:
        ValueError: the data cannot be written as JSON, or the meta are none that HTTP allows.
    """
    data = buffer.data
    if isinstance(data, bytes | bytearray | memoryview):
        body, kind = bytes(data), _BYTES
    elif isinstance(data, str):
        body, kind = data.encode(), _TEXT
    else:
        try:
            body, kind = json.dumps(data, default=_plain).encode(), _JSON
        except (TypeError, ValueError) as error:
            message = (
                f"got {type(data).__name__}, which cannot be written as JSON ({error}); expected "
                "bytes, text, numbers, lists or mappings"
            )
            raise ValueError(message) from error
    status = buffer.get("status", 200)
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        message = f"got the meta status={status!r}; expected an HTTP status, 200 to 599"
        raise ValueError(message)
    given = buffer.get("headers")
    headers = {"content-type": content_type or kind, **_headers(None if given is asked else given)}
    return Reply(status, body, headers)


def reply_of_error(error: FlowUnitError) -> Reply:
    """Returns the answer to a request that failed.

    400 where the data was refused (a ``ValueError``), 504 where it came too late, else 500; the
    body is JSON with node, unit, type and message.
    """
    cause = error.__cause__ or error
    if isinstance(cause, DeadlineExceeded) or isinstance(error, DeadlineExceeded):
        status = HTTPStatus.GATEWAY_TIMEOUT
    elif isinstance(cause, ValueError):
        status = HTTPStatus.BAD_REQUEST
    else:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
    described = {
        "node": error.node,
        "unit": error.unit,
        "type": type(cause).__name__,
        "message": str(cause),
    }
    return Reply(status, json.dumps({"error": described}).encode(), {"content-type": _JSON})


def reply_of_status(status: HTTPStatus, message: str) -> Reply:
    """Returns an answer of the server's own."""
    body = json.dumps({"error": {"type": status.phrase, "message": message}}).encode()
    return Reply(status, body, {"content-type": _JSON})


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    message = f"no JSON for {type(value).__name__}"
    raise TypeError(message)


def _headers(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        message = f"got the meta headers={given!r}; expected a mapping of names to values"
        raise ValueError(message)
    headers = {str(name).lower(): str(value) for name, value in given.items()}
    for name, value in headers.items():
        if not name.isascii() or any(c in name + value for c in "\r\n\0") or ":" in name:
            message = f"got the header {name!r}={value!r}; expected a name and a value of one line"
            raise ValueError(message)
    return headers
