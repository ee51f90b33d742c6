"""HTTP replies made of buffers and errors, and the bodies of requests within bounds."""

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

# The bytes are what somebody has written, and may be read as a text.
TEXT = "is_text"
# The array stands for its bytes: it is answered as these, not as numbers.
RAW = "is_raw"

PAYLOAD_MARKS = frozenset({RAW, TEXT})


_log = logging.getLogger(__name__)

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"


@dataclass(slots=True)
class Reply:
    """An answer to a request.

    Attributes:
        status: The HTTP status.
        body: What is sent.
        headers: Name -> value.
        own: Further headers, which differ from answer to answer.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def reply_of(
    buffer: Buffer, content_type: str = "", asked: Mapping[str, str] | None = None
) -> Reply:
    """Returns what a buffer answers: bytes and text as they are, anything else as JSON.

    An array whose meta say so (`RAW`) goes out as its bytes.

    Args:
        buffer: Its meta ``status`` (200) and ``headers`` (a mapping) are obeyed.
        content_type: Of the body; ``""``: by its type.
        asked: The request's own headers, which the meta may still be.

    Raises:
        ValueError: the data cannot be written as JSON, or the meta are none that HTTP allows.
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
    """Returns the answer to a request that failed.

    400 where the data was refused (`FlowUnitError.is_refusal`), with node, unit, type and message;
    504 where it came too late; else see `reply_of_failure`.

    Args:
        error: What is in the place of the answer.
        is_told: What the data was refused for is told; False: as of any failure, an id.
    """
    cause = error.__cause__ or error
    if isinstance(cause, DeadlineExceeded) or isinstance(error, DeadlineExceeded):
        return reply_of_status(HTTPStatus.GATEWAY_TIMEOUT, "the request came to its turn too late")
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
    """Returns the answer 500 to a request that the graph failed on.

    What failed is nobody's business outside: it goes to the log, under an id that is answered.
    """
    return _reply_of(
        HTTPStatus.INTERNAL_SERVER_ERROR, _log_error(error, "failed inside the server")
    )


def _log_error(error: Exception, what: str) -> dict[str, str]:
    """Puts an error into the log, and returns what is told of it: under which id it is there."""
    number = uuid.uuid4().hex[:12]
    _log.error("request %s %s: %s", number, what, error, exc_info=error.__cause__ or error)
    return {
        "message": f"the request {what}; the server's log tells why under this id",
        "id": number,
    }


def reply_of_status(status: HTTPStatus, message: str) -> Reply:
    """Returns an answer of the server's own; with ``Retry-After`` where it is 503."""
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


# A part that is smaller is copied behind the one before: a body may come byte by byte.
_OWN_PART = 1 << 10


class RefusedError(Exception):
    """A request is not worked on.

    Attributes:
        reply: What it is answered.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class BodyBudget:
    """The bytes that all bodies together may take. For the server's thread.

    Attributes:
        most: How many these are.
        taken: How many of them are.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, size: int) -> bool:
        """Takes ``size`` bytes; False, and nothing is taken, where there are not so many left."""
        if self.taken + size > self.most:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        """Gives ``size`` bytes back."""
        self.taken -= size


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What the body of a request may be.

    Attributes:
        most: Most bytes.
        budget: Where its bytes are taken from.
        time_out: Seconds within which it must be there.
    """

    most: int
    budget: BodyBudget
    time_out: float


class Body:
    """A body that is being read; its bytes are taken from the budget as they come."""

    def __init__(self, limits: BodyLimits, announced: int | None) -> None:
        """Begins to read a body.

        Args:
            limits: What it may be.
            announced: Its length, if its head says so.

        Raises:
            RefusedError: it is too long already.
        """
        self.limits = limits
        self.size = 0
        self._parts: list[bytes | bytearray] = []
        if announced is not None and announced > limits.most:
            raise self._too_long()

    def add(self, part: bytes) -> None:
        """Takes what has come.

        Raises:
            RefusedError: it is too long, or there is no room for it beside other bodies.
        """
        if self.size + len(part) > self.limits.most:
            raise self._too_long()
        if not self.limits.budget.take(len(part)):
            text = "there is no room for the body beside those of other requests"
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))
        self.size += len(part)
        if len(part) >= _OWN_PART or not self._parts:
            self._parts.append(part)
        elif isinstance(last := self._parts[-1], bytearray):
            last += part
        else:
            self._parts.append(bytearray(part))

    def whole(self) -> bytes:
        """Returns it; its bytes stay taken, and are its owner's to give back."""
        first = self._parts[0] if len(self._parts) == 1 else None
        return first if isinstance(first, bytes) else b"".join(self._parts)

    def drop(self) -> None:
        """Gives everything back: nobody will read it."""
        self.limits.budget.give_back(self.size)
        self.size = 0
        self._parts = []

    def _too_long(self) -> RefusedError:
        text = f"the body has more than {self.limits.most} bytes"
        return RefusedError(reply_of_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))
