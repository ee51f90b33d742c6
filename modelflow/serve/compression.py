"""Bodies that are sent compressed, and answers that may be."""

import zlib
from collections.abc import Mapping
from types import MappingProxyType

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.wire.problem import Code, Problem

__all__ = ["compressed", "whole_body"]

# How zlib is told of each form: `deflate` is the zlib form, as the protocol says.
_WINDOWS: Mapping[str, int] = MappingProxyType({"gzip": 31, "deflate": 15})
# Shorter answers are not worth it.
_LEAST = 1024


def whole_body(exchange: Exchange, most: int) -> bytes:
    """Returns the body of a request, decompressed if it is compressed.

    Args:
        exchange: The request.
        most: Most bytes that it may be.

    Raises:
        Problem: it is compressed in a way that is not known, damaged, or too long.
    """
    encoding = exchange.head.named.get(b"content-encoding", b"identity").decode("latin-1").lower()
    if encoding == "identity":
        return exchange.body
    window = _WINDOWS.get(encoding)
    if window is None:
        message = f"Content-Encoding: {encoding!r}; expected gzip, deflate or identity"
        raise Problem(message, Code.UNIMPLEMENTED)
    reader = zlib.decompressobj(window)
    try:
        body = reader.decompress(exchange.body, most + 1)
    except zlib.error as error:
        message = f"the body is no {encoding}: {error}"
        raise Problem(message) from error
    if len(body) > most:
        message = f"the body has more than {most} bytes when it is decompressed"
        raise Problem(message)
    if not reader.eof:
        message = f"the body ends in the middle of its {encoding}"
        raise Problem(message)
    return body


def compressed(exchange: Exchange, reply: Reply) -> Reply:
    """Returns an answer as whoever asked takes it: compressed if that was said, and is worth it."""
    accepted = exchange.head.named.get(b"accept-encoding", b"").decode("latin-1").lower()
    names = {part.partition(";")[0].strip() for part in accepted.split(",")}
    encoding = next((name for name in _WINDOWS if name in names), None)
    if encoding is None or len(reply.body) < _LEAST:
        return reply
    writer = zlib.compressobj(level=1, wbits=_WINDOWS[encoding])
    body = writer.compress(reply.body) + writer.flush()
    return Reply(reply.status, body, {**reply.headers, "content-encoding": encoding})
