"""CORS: lets pages of other origins send requests, as the options allow."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from modelflow.errors import ConfigError
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import refusal
from modelflow.wire.problem import Code, Problem

_ANY = "*"
_METHOD, _HEADERS = b"access-control-request-method", b"access-control-request-headers"
_NAMES = re.compile(r"[\w!#$%&'*+.^`|~, -]*", re.ASCII)
_SHOWN = "x-request-id, traceparent, retry-after, inference-header-content-length"
_SECONDS = "600"  # a browser may cache the reply for this time


class Cors:
    """The allowed origins, and the CORS headers for their pages."""

    def __init__(self, origins: Iterable[str]) -> None:
        """Stores the allowed origins; ``*`` allows all.

        Raises:
            ConfigError: A text is not an origin.
        """
        self._origins = frozenset(map(_origin, origins))

    def headers(self, origin: str) -> dict[str, str]:
        """Returns the headers that let a page of this origin read a reply, or ``{}``."""
        found = self._allow(origin)
        return found and {**found, "access-control-expose-headers": _SHOWN}

    def preflight(self, http_request: HttpRequest, origin: str) -> Reply | None:
        """Returns the reply to a preflight request, or None for other requests."""
        method = http_request.head.named.get(_METHOD)
        if http_request.head.method != "OPTIONS" or method is None:
            return None
        allowed = self._allow(origin)
        names = http_request.head.named.get(_HEADERS, b"").decode("latin-1")
        if not allowed or not _NAMES.fullmatch(names):
            message = f"origin {origin!r} is not allowed; start the server with --cors-origin"
            return refusal(Problem(message, Code.PERMISSION_DENIED))
        headers = {
            **allowed,
            "access-control-allow-methods": "GET, POST",
            "access-control-allow-headers": names,
            "access-control-max-age": _SECONDS,
        }
        return Reply(HTTPStatus.NO_CONTENT, b"", headers)

    def _allow(self, origin: str) -> dict[str, str]:
        if _ANY in self._origins:
            return {"access-control-allow-origin": _ANY}
        if origin in self._origins:
            return {"access-control-allow-origin": origin, "vary": "Origin"}
        return {}


def _origin(text: str) -> str:
    if text in (_ANY, "null"):
        return text
    if not _is_origin(text):
        raise ConfigError(
            f"CORS origin: got {text!r}; expected SCHEME://HOST or SCHEME://HOST:PORT without a "
            "path, as in https://app.example.com, or *"
        )
    return text.lower()


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_whole = text == f"{parts.scheme}://{parts.netloc}" and parts.port != 0
    except ValueError:  # an invalid port
        return False
    return (
        is_whole and parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in text
    )
