"""The head of an answer, as it is sent."""

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from modelflow.http.outflow import StreamedReply
from modelflow.http.reply import Reply

__all__ = ["head_of", "plain_head"]

_NO_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_PHRASES = {int(status): status.phrase for status in HTTPStatus}


def head_of(reply: Reply | StreamedReply, *, is_last: bool, is_kept: bool) -> bytes:
    """Returns status line and headers, with the empty line.

    Args:
        reply: The answer.
        is_last: The connection ends behind it.
        is_kept: Who asked speaks HTTP/1.0 and wants the connection to stay open.
    """
    start = _start(reply.status, *reply.headers.items())
    if isinstance(reply, StreamedReply):
        length = b"" if is_kept else b"\r\ntransfer-encoding: chunked"
    elif reply.status in _NO_BODY:
        length = b""
    else:
        length = b"\r\ncontent-length: %d" % len(reply.body)
    if is_last:
        length += b"\r\nconnection: close"
    elif is_kept:
        length += b"\r\nconnection: keep-alive"
    return start + length + _date_line(int(time.time()))


@lru_cache(maxsize=256)  # most answers of a second begin alike
def plain_head(status: int, length: int, now: int, *headers: tuple[str, str]) -> bytes:
    """Returns the head of an answer over HTTP/1.1 behind which the connection goes on.

    Args:
        status: The HTTP status, of an answer that may have a body.
        length: Bytes of its body.
        now: Seconds since 1970.
        headers: Further headers, names and values.
    """
    return b"%b\r\ncontent-length: %d%b" % (_start(status, *headers), length, _date_line(now))


@lru_cache(maxsize=64)
def _start(status: int, *headers: tuple[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {int(status)} {_PHRASES.get(int(status), 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("latin-1", "replace")


@lru_cache(maxsize=1)
def _date_line(now: int) -> bytes:
    return f"\r\ndate: {formatdate(now, usegmt=True)}\r\n\r\n".encode()
