"""A file at ``https://``, and the requests that the readers of web servers share."""

import base64
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from modelflow.errors import ConfigError
from modelflow.serve.sources.listing import Listing, OnBytes, RemoteFile, check_files, scrub

TIMEOUT = 30.0
"""The seconds without a byte after which a connection is given up."""

_CHUNK = 1 << 20
_DEFINITE = frozenset({400, 401, 403, 404, 410, 412})
_NO_HEAD = frozenset({405, 501})
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_NOTHING: Mapping[str, str] = MappingProxyType({})


class WebFile:
    """A file at ``https://``, identified by its ETag or its time of change."""

    def __init__(self, url: str, shown: str) -> None:
        """Stores the URL.

        Raises:
            ConfigError: The URL names no file, or has no encryption and another host.
        """
        parts = urlsplit(url)
        check_encrypted(url, shown)
        self.shown = shown
        self._headers = {}
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
        place = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, place, parts.path, parts.query, ""))
        self._name = unquote(parts.path).rpartition("/")[2]
        if not self._name:
            raise ConfigError(f"{shown}: names no file; over https a model is one file")

    def list_files(self) -> Listing:
        """Returns the single file; see `RemoteSource`."""
        with explain_web(self.shown):
            try:
                found = self._ask("HEAD")
            except urllib.error.HTTPError as error:
                if error.code not in _NO_HEAD:
                    raise
                error.close()
                found = self._ask("GET")
        identity = found.get("ETag") or found.get("Last-Modified")
        size = found.get("Content-Length", "")
        if not identity or not size.isdecimal():
            raise ConfigError(
                f"{self.shown}: the server gives {identity or 'neither ETag nor Last-Modified'} "
                f"and the length {size or 'nothing'!r}; expected both, to know a changed file"
            )
        files = check_files(self.shown, [RemoteFile(self._name, int(size), identity)])
        return Listing(self._name, files, identity)

    def write(self, file: RemoteFile, path: Path, on_bytes: OnBytes) -> None:
        """Writes the unchanged file; see `RemoteSource`."""
        identity = file.identity
        is_exact = identity.startswith('"')  # a weak ETag or a date never matches If-Match
        headers = {"If-Match": identity} if is_exact else {}
        with explain_web(self.shown), open_url(self._url, {**self._headers, **headers}) as answer:
            now = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            if now != identity:
                raise ConfigError(f"{self.shown}: has changed while it was copied; look again")
            save(answer, path, on_bytes)

    def _ask(self, method: str) -> http.client.HTTPMessage:
        with open_url(self._url, self._headers, method) as answer:
            return answer.headers


def check_encrypted(url: str, shown: str) -> None:
    """Checks that a URL has encryption, or names this machine.

    Raises:
        ConfigError: The URL has no encryption.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOCAL):
        raise ConfigError(
            f"{shown}: got {parts.scheme}; expected https, or a server of this machine"
        )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to places with encryption alone."""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        """Returns the next request, after a check of its URL."""
        url = given[-1]
        check_encrypted(url, scrub(url).partition("?")[0])
        return super().redirect_request(*given)


_OPENER = urllib.request.build_opener(_Redirects)


@contextmanager
def open_url(
    url: str, headers: Mapping[str, str] = _NOTHING, method: str = "GET"
) -> Iterator[http.client.HTTPResponse]:
    """Yields the reply of a web server. A redirect does not pass the headers on.

    Raises:
        OSError: The server cannot be reached, or answers an error (`urllib.error.HTTPError`).
    """
    request = urllib.request.Request(url, method=method)
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    with _OPENER.open(request, timeout=TIMEOUT) as answer:
        yield answer


def save(answer: http.client.HTTPResponse, path: Path, on_bytes: OnBytes) -> None:
    """Writes the body of a reply to a path.

    Raises:
        OSError: The connection ends early, or the path cannot be written.
    """
    with path.open("wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            on_bytes(len(chunk))


def _explain_status(shown: str, error: urllib.error.HTTPError) -> Exception:
    """Returns the error for a failed request: a `ConfigError` if another try would not help."""
    reason = scrub(error.reason).partition("\n")[0]  # urllib has several lines for a loop
    text = f"the server answers {error.code} {reason}"
    return ConfigError(f"{shown}: {text}") if error.code in _DEFINITE else ConnectionError(text)


@contextmanager
def explain_web(shown: str) -> Iterator[None]:
    """Raises the errors of a request inside the block with the URL.

    Raises:
        ConfigError, OSError: As `RemoteSource`.
    """
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise _explain_status(shown, error) from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionError(scrub(reason)) from error
