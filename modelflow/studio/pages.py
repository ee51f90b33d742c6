"""The files that a browser loads, built from ``studio/`` at the top of the project."""

import json
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType

from modelflow.http.reply import Reply, reply_of_status

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-security-policy": (
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "object-src 'none'"
        ),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
)
"""The headers of every answer. The page loads nothing from other sites and hides its address."""

STREAM: Mapping[str, str] = MappingProxyType({**HEADERS, "content-type": "text/event-stream"})
"""The headers of an answer with server-sent events."""

PAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "": ("index.html", "text/html; charset=utf-8"),
        "app.js": ("app.js", "text/javascript; charset=utf-8"),
        "style.css": ("style.css", "text/css; charset=utf-8"),
        "icon.svg": ("icon.svg", "image/svg+xml"),
    }
)
"""Path below the dashboard's address -> file and type. The files contain no data of a flow."""

EDITOR_PAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "": ("edit.html", "text/html; charset=utf-8"),
        "edit.js": ("edit.js", "text/javascript; charset=utf-8"),
        "edit.css": ("edit.css", "text/css; charset=utf-8"),
        "icon.svg": PAGES["icon.svg"],
    }
)
"""Path below the editor's address -> file and type."""


def json_reply(found: object, status: int = HTTPStatus.OK) -> Reply:
    """Returns an answer with a JSON value."""
    body = json.dumps(found, separators=(",", ":")).encode()
    return Reply(status, body, {**HEADERS, "content-type": "application/json"})


def page_reply(pages: Mapping[str, tuple[str, str]], path: str) -> Reply:
    """Returns an answer with a page of `PAGES` or `EDITOR_PAGES`, or 404 for an unknown path."""
    found = pages.get(path.removeprefix("/"))
    if found is None:
        return reply_of_status(HTTPStatus.NOT_FOUND, f"there is nothing at {path!r}")
    return _page(*found)


@cache
def _page(file: str, kind: str) -> Reply:
    body = files("modelflow.studio").joinpath("static", file).read_bytes()
    return Reply(200, body, {**HEADERS, "content-type": kind})
