"""``/openapi.json``, and ``/docs``: a page to read the description and try requests."""

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.http.openapi import openapi_document
from modelflow.serve.interfaces import ModelSource
from modelflow.wire.json_writer import json_of


class Pages:
    """The endpoints of the server's description. The HTML page loads the description as JSON."""

    def __init__(self, stock: ModelSource, *, has_keys: bool) -> None:
        """Stores the models to describe. ``has_keys`` says whether requests need an API key."""
        self._stock = stock
        self._has_keys = has_keys
        self._page = _page()
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint("/openapi.json", GET=self._document),
            endpoint("/docs", GET=self._read).of(None),
        )

    def _document(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        document = openapi_document(
            self._stock.models,
            has_keys=self._has_keys,
            is_repository_open=self._stock.is_open,
        )
        http_request.answer(Reply(200, json_of(document), JSON))

    def _read(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        http_request.answer(self._page)


def _page() -> Reply:
    """Returns the HTML page. Its policy lets the page load data from this server only."""
    text = files("modelflow.serve").joinpath("docs.html").read_text(encoding="utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(text, 'script')}",
            f"style-src {_hash(text, 'style')}",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return Reply(200, text.encode(), headers)


def _hash(text: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    assert found is not None  # docs.html has both tags
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}'"
