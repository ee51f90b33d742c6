"""HTTP replies from buffers and errors, and request bodies within limits."""

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.files.json_value import json_value

# Meta key: the bytes come from a client, and may be read as a text.
TEXT = "is_text"
# Meta key: the reply contains the bytes of the array, not its numbers.
RAW = "is_raw"

PAYLOAD_MARKS = frozenset({RAW, TEXT})


_log = logging.getLogger(__name__)

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"


@dataclass(slots=True)
class Reply:
    """A reply to a request.

    Attributes:
        status: The HTTP status.
        body: The body.
        headers: The values by name.
        own: Further headers, which differ between replies.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def reply_of(
    buffer: Buffer, content_type: str = "", asked: Mapping[str, str] | None = None
) -> Reply:
    """Returns the reply for a buffer: bytes and text unchanged, other data as JSON.

    An array with the meta key `RAW` is sent as its bytes.

    Args:
        buffer: The buffer. Its meta ``status`` (default 200) and ``headers`` (a mapping) are used.
        content_type: The content type of the body, or ``""`` to choose by the type of the data.
        asked: The headers of the request. If the meta ``headers`` are still this object, they are
            ignored.

    Raises:
        ValueError: The data cannot be written as JSON, or the meta are invalid in HTTP.
    """
    data = buffer.data
    if isinstance(data, np.ndarray) and data.dtype == np.uint8 and buffer.get(RAW):
        data = data.tobytes()
    if isinstance(data, bytes | bytearray | memoryview):
        body, kind = bytes(data), _BYTES
    elif isinstance(data, str):
        body, kind = data.encode(), _TEXT
    else:
        try:
            body, kind = json.dumps(json_value(data)).encode(), _JSON
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"got {type(data).__name__}, which cannot be written as JSON ({error}); expected "
                "bytes, text, numbers, lists or mappings"
            ) from error
    status = buffer.get("status", 200)
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError(f"got the meta status={status!r}; expected an HTTP status, 200 to 599")
    given = buffer.get("headers")
    headers = {"content-type": content_type or kind, **_headers(None if given is asked else given)}
    return Reply(status, body, headers)


def reply_of_error(error: FlowUnitError, *, is_told: bool = True) -> Reply:
    """Returns the reply to a failed request.

    The status is 400 if the data was refused (`FlowUnitError.is_refusal`), with node, unit, type
    and message. The status is 504 if the deadline has passed. Otherwise see `reply_of_failure`.

    Args:
        error: The error.
        is_told: Whether the client gets the reason of a refusal. If False, the client gets only an
            id, as for any failure.
    """
    cause = error.__cause__ or error
    if isinstance(cause, DeadlineExceeded) or isinstance(error, DeadlineExceeded):
        return reply_of_status(
            HTTPStatus.GATEWAY_TIMEOUT, "the deadline passed before the request ran"
        )
    if not error.is_refusal:
        return reply_of_failure(error)
    if not is_told:
        return _reply_of(HTTPStatus.BAD_REQUEST, _log_error(error, "was refused"))
    described = {
        "node": error.node,
        "unit": error.unit,
        "type": type(cause).__name__,
        "message": str(cause),
    }
    body = json.dumps({"error": described}).encode()
    return Reply(HTTPStatus.BAD_REQUEST, body, {"content-type": _JSON})


def reply_of_failure(error: Exception) -> Reply:
    """Returns a 500 reply to a request that failed in the graph.

    Clients must not see internal errors. The error goes to the log, and the reply has its id.
    """
    return _reply_of(
        HTTPStatus.INTERNAL_SERVER_ERROR, _log_error(error, "failed inside the server")
    )


def _log_error(error: Exception, what: str) -> dict[str, str]:
    """Logs an error under a new id, and returns the message and the id for the client."""
    number = uuid.uuid4().hex[:12]
    _log.error("request %s %s: %s", number, what, error, exc_info=error.__cause__ or error)
    return {
        "message": f"the request {what}; the server's log tells why under this id",
        "id": number,
    }


def reply_of_status(status: HTTPStatus, message: str) -> Reply:
    """Returns a reply from the server itself, with ``Retry-After`` for status 503."""
    return _reply_of(status, {"message": message})


def _reply_of(status: HTTPStatus, described: Mapping[str, str]) -> Reply:
    body = json.dumps({"error": {"type": status.phrase, **described}}).encode()
    headers = {"content-type": _JSON}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    return Reply(status, body, headers)


def _headers(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"got the meta headers={given!r}; expected a mapping of names to values")
    headers = {str(name).lower(): str(value) for name, value in given.items()}
    for name, value in headers.items():
        if not name.isascii() or any(c in name + value for c in "\r\n\0") or ":" in name:
            raise ValueError(
                f"got the header {name!r}={value!r}; expected a name and a value of one line"
            )
    return headers


# Smaller parts of a body, in bytes, are joined with the previous part, because a body may arrive
# byte by byte.
_OWN_PART = 1 << 10


class RefusedError(Exception):
    """The error for a request that is refused.

    Attributes:
        reply: The reply to the request.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def busy_error() -> RefusedError:
    """Returns the refusal of a request on a connection beyond the limits."""
    text = "there are too many connections"
    return RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))


class BodyBudget:
    """The byte budget of all bodies together. Call the methods on the server's thread.

    Attributes:
        most: The most bytes.
        taken: The bytes in use.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, size: int) -> bool:
        """Takes ``size`` bytes. Returns False, and takes nothing, if too few bytes are left."""
        if self.taken + size > self.most:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        """Gives ``size`` bytes back."""
        self.taken -= size


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits on the body of a request.

    Attributes:
        most: Most bytes.
        budget: The byte budget.
        time_out: Seconds within which the body must arrive.
        advice: The end of the message about a body that is too long.
    """

    most: int
    budget: BodyBudget
    time_out: float
    advice: str = ""


class Body:
    """A body that is being read. Received bytes are taken from the budget."""

    def __init__(self, limits: BodyLimits, announced: int | None) -> None:
        """Starts a body.

        Args:
            limits: The limits on the body.
            announced: The length from the head, or None.

        Raises:
            RefusedError: The announced length is too long.
        """
        self.limits = limits
        self.size = 0
        self._parts: list[bytes | bytearray] = []
        if announced is not None and announced > limits.most:
            raise self._too_long()

    def add(self, part: bytes) -> None:
        """Adds received bytes.

        Raises:
            RefusedError: The body is too long, or the byte budget is used up.
        """
        if self.size + len(part) > self.limits.most:
            raise self._too_long()
        if not self.limits.budget.take(len(part)):
            text = "there is no room for the body: other requests use the whole byte budget"
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))
        self.size += len(part)
        if len(part) >= _OWN_PART or not self._parts:
            self._parts.append(part)
        elif isinstance(last := self._parts[-1], bytearray):
            last += part
        else:
            self._parts.append(bytearray(part))

    def whole(self) -> bytes:
        """Returns the whole body. The caller gives its bytes back to the budget later."""
        first = self._parts[0] if len(self._parts) == 1 else None
        return first if isinstance(first, bytes) else b"".join(self._parts)

    def drop(self) -> None:
        """Discards the body, and gives its bytes back to the budget."""
        self.limits.budget.give_back(self.size)
        self.size = 0
        self._parts = []

    def _too_long(self) -> RefusedError:
        text = f"the body has more than {self.limits.most} bytes{self.limits.advice}"
        return RefusedError(reply_of_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))
