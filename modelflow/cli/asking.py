"""Asks a running flow, or a file, for its figures."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.profile.snapshot import Snapshot

__all__ = ["address_of", "ask", "is_address", "read_profile"]

# Bytes that a snapshot has at most: some 10 000 nodes.
_MOST = 1 << 26
_PATIENCE = 10.0


def is_address(text: str) -> bool:
    """Tells whether a text names a running flow: a port, HOST:PORT or a URL; else it is a file."""
    if text.isdecimal() or "://" in text:
        return True
    host, colon, port = text.rpartition(":")
    return bool(colon and host) and port.isdecimal() and not Path(text).exists()


def address_of(url: str) -> str:
    """Returns the URL of the snapshot.

    Raises:
        ConfigError: it is none.
    """
    whole = f"127.0.0.1:{url}" if url.isdecimal() else url
    whole = whole if "://" in whole else f"http://{whole}"
    parts = urlsplit(whole)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = f"{url}: expected a port, HOST:PORT or a URL that begins with http:// or https://"
        raise ConfigError(message)
    return whole if parts.path.rstrip("/") else f"{whole.rstrip('/')}/stats"


def ask(address: str) -> "Snapshot":
    """Returns the figures of the flow that answers there.

    Raises:
        ConfigError: nobody does, or what comes is something else.
    """
    from modelflow.profile.snapshot import Snapshot

    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer:
            text = answer.read(_MOST + 1)
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        message = f"{address}: no answer: {reason}"
        raise ConfigError(message) from error
    if len(text) > _MOST:
        message = f"{address}: the answer is longer than {_MOST} bytes"
        raise ConfigError(message)
    try:
        return Snapshot.read(json.loads(text))
    except (ValueError, ConfigError) as error:
        message = f"{address}: is no flow's figures: {error}"
        raise ConfigError(message) from error


def read_profile(path: Path) -> "tuple[Snapshot | None, Snapshot]":
    """Reads what ``modelflow profile --json`` has written: the first moment and the last.

    Raises:
        ConfigError: it cannot be read, or is something else.
    """
    from modelflow.profile.snapshot import Snapshot

    try:
        if path.stat().st_size > _MOST:
            message = f"{path}: longer than {_MOST} bytes; expected a profile"
            raise ConfigError(message)
        document = json.loads(path.read_bytes())
        before = document.get("before") if isinstance(document, dict) else None
        return None if before is None else Snapshot.read(before), Snapshot.read(document)
    except (OSError, ValueError, ConfigError) as error:
        message = f"{path}: is no profile: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(message) from error
