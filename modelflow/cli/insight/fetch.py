"""Reads the figures of a running flow, or of a profile file."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modelflow.errors import ConfigError
from modelflow.files.unix_socket import NO_UNIX, is_unix

if TYPE_CHECKING:
    from modelflow.profile.snapshot import Snapshot


# Bytes of the largest snapshot: some 10 000 nodes.
_MOST = 1 << 26
_PATIENCE = 10.0
_KEY = "MODELFLOW_API_KEY"  # an environment variable, because every user can see arguments
_LONGEST = 4096  # bytes that are read of an error reply


def is_address(text: str) -> bool:
    """Tells whether a text names a running flow (a port, HOST:PORT or a URL) and not a file."""
    if _is_number(text) or "://" in text or is_unix(text):
        return True
    host, colon, port = text.rpartition(":")
    return bool(colon and host) and _is_number(port) and not Path(text).exists()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def address_of(url: str) -> str:
    """Returns the URL of the snapshot.

    Raises:
        ConfigError: The text is no URL of a server.
    """
    if is_unix(url):
        raise ConfigError(f"{url}: {NO_UNIX}")
    whole = f"127.0.0.1:{url}" if _is_number(url) else url
    whole = whole if "://" in whole else f"http://{whole}"
    path = ""
    try:
        parts = urlsplit(whole)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        path = parts.path
    except ValueError:  # an invalid port, or a bracket that is not closed
        is_good = False
    if not is_good or not whole.isascii():
        raise ConfigError(
            f"{url}: expected a port (1 to 65535), HOST:PORT or a URL that begins with http:// or "
            "https://"
        )
    return whole if path.rstrip("/") else f"{whole.rstrip('/')}/stats"


def ask(address: str, patience: float = _PATIENCE) -> "Snapshot":
    """Returns the figures of the flow that answers at an address.

    Args:
        address: See `address_of`.
        patience: Seconds until the reply must be complete.

    Raises:
        ConfigError: There is no reply, or the reply is no snapshot.
    """
    from modelflow.profile.snapshot import Snapshot

    end = time.monotonic() + patience
    parts: list[bytes] = []
    try:
        key = os.environ.get(_KEY, "")
        request = urllib.request.Request(address, headers={"x-api-key": key} if key else {})
        with urllib.request.urlopen(request, timeout=patience) as answer:
            while part := answer.read1(_MOST):
                parts.append(part)
                if sum(map(len, parts)) > _MOST:
                    raise ConfigError(f"{address}: the answer is longer than {_MOST} bytes")
                if time.monotonic() > end:
                    raise ConfigError(f"{address}: no whole answer within {patience:g} s")
    except urllib.error.HTTPError as error:
        with error:  # closes the connection that the error holds
            said = _read_error(error)
        raise ConfigError(f"{address}: {error.code} {error.reason}{said}") from error
    except http.client.RemoteDisconnected as error:  # a BadStatusLine, and an OSError
        raise ConfigError(
            f"{address}: the server closed the connection without an answer; it may have too many "
            "connections, or this is a port for gRPC"
        ) from error
    except http.client.BadStatusLine as error:
        raise ConfigError(
            f"{address}: the server there does not speak HTTP; is it a port for gRPC?"
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(f"{address}: no answer: {reason or type(error).__name__}") from error
    try:
        return Snapshot.read(json.loads(b"".join(parts)))
    except (ValueError, RecursionError, ConfigError) as error:
        raise ConfigError(f"{address}: the reply has no figures of a flow: {error}") from error


def _read_error(error: urllib.error.HTTPError) -> str:
    """Returns ``: MESSAGE`` from an error reply, or an empty text.

    Replies are ``{"error": MESSAGE}`` and ``{"error": {"message": MESSAGE}}``.
    """
    try:
        document = json.loads(error.read(_LONGEST))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return ""
    said = document.get("error") if isinstance(document, dict) else None
    said = said.get("message") if isinstance(said, dict) else said
    return f": {said}" if isinstance(said, str) else ""


def read_profile(path: Path) -> "tuple[Snapshot | None, Snapshot]":
    """Reads a file from ``modelflow profile --json``: the first and the last snapshot.

    Raises:
        ConfigError: The file cannot be read, or is no profile.
    """
    from modelflow.profile.snapshot import Snapshot

    try:
        if path.stat().st_size > _MOST:
            raise ConfigError(f"{path}: longer than {_MOST} bytes; expected a profile")
        document = json.loads(path.read_bytes())
        before = document.get("before") if isinstance(document, dict) else None
        return None if before is None else Snapshot.read(before), Snapshot.read(document)
    except (OSError, ValueError, RecursionError, ConfigError) as error:
        raise ConfigError(
            f"{path}: is no profile: {getattr(error, 'strerror', None) or error}"
        ) from error
