"""Inputs of ``modelflow load``: the files are read once, before the clock starts."""

import mimetypes
import sys
from typing import TYPE_CHECKING, Any

import click

from modelflow.errors import ConfigError, explain_os_error
from modelflow.job.inputs import feeds_of, files_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelflow.insight.load.http_request import HttpBody


# Maximum number of bytes that are kept in memory for sending.
_MOST = 1 << 30


def rows_of(texts: "Sequence[str]", inputs: "Sequence[str]") -> "list[dict[str, Any]]":
    """Reads ``--input``: returns a row for each file, with a buffer for each input of the graph.

    Raises:
        click.UsageError: An input is missing, named twice or unknown.
        ConfigError: No file matches, a file cannot be read, or the files are too large.
    """
    feeds = feeds_of(texts, inputs)
    _check_size("--input", sum(feed.size for feed in feeds))
    rows = []
    for buffers in zip(*feeds, strict=True):
        for buffer in buffers:
            if buffer.error is not None:
                raise ConfigError(f"--input: {buffer.error}")
        rows.append({feed.port: buffer for feed, buffer in zip(feeds, buffers, strict=True)})
    return rows


def bodies_of(texts: "Sequence[str]") -> "list[HttpBody]":
    """Reads ``--body``: returns a body for each file, with the media type of its suffix.

    Raises:
        ConfigError: No file matches, a file cannot be read, or the files are too large.
    """
    from modelflow.insight.load.http_request import HttpBody

    found: list[HttpBody] = []
    for text in texts:
        if text == "-":
            found.append(HttpBody(sys.stdin.buffer.read()))
            continue
        paths = files_of("--body", text)
        size = sum(len(body.data) for body in found)
        _check_size("--body", size + sum(path.stat().st_size for path in paths))
        for path in paths:
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            with explain_os_error(f"--body {path}: cannot be read"):
                found.append(HttpBody(path.read_bytes(), kind))
    return found


def headers_of(texts: "Sequence[str]") -> list[tuple[str, str]]:
    """Parses ``--header NAME:VALUE``.

    Raises:
        click.UsageError: A text has no colon.
    """
    found = []
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon:
            raise click.UsageError(f"--header {text}: expected NAME:VALUE")
        found.append((name.strip(), value.strip()))
    return found


def _check_size(option: str, size: int) -> None:
    if size > _MOST:
        raise ConfigError(
            f"{option}: the files have {size} bytes; expected at most {_MOST}: they are read once "
            "and kept, so give fewer of them"
        )
