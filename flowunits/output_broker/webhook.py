"""Sends POST requests to webhooks, in bounded time."""

import http.client
import io
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

__all__ = ["origin_of", "post"]

# Most bytes of a response, of which only the status is used.
_MOST = 1 << 20


def post(url: str, data: bytes, headers: Mapping[str, str], seconds: float) -> None:
    """Sends ``data`` by POST, follows redirects, and ignores the body of the response.

    Args:
        url: ``http://...`` or ``https://...``.
        data: The body.
        headers: Name -> value.
        seconds: The most seconds for one connection, from its beginning to the end of the response
            head.

    Raises:
        OSError: the response has no status from 200 to 299. The message names only the server,
            because the address may contain secrets.
    """
    request = urllib.request.Request(url, data, dict(headers), method="POST")
    try:
        _opener().open(request, timeout=seconds).close()
    except urllib.error.HTTPError as error:
        with error:  # closes the connection that the error holds
            message = f"{origin_of(url)} answered {error.code} {error.reason}"
        raise OSError(message) from None
    except urllib.error.URLError as error:
        raise OSError(f"{origin_of(url)}: {error.reason}") from None
    except http.client.HTTPException as error:  # its text may contain the address
        raise OSError(f"{origin_of(url)}: {type(error).__name__}") from None


def origin_of(url: str) -> str:
    """Returns scheme and server of an address. Messages may show this part."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # an invalid address: any part of it may be secret
        return "an address"
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


class _Answer(io.RawIOBase):
    """The bytes of a connection, limited by a deadline and by a size."""

    def __init__(self, connected: socket.socket, end: float) -> None:
        super().__init__()
        self._socket, self._end, self._size = connected, end, 0
        self._raw = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not there in time")
        if self._size > _MOST:
            raise OSError(f"the answer has more than {_MOST} bytes")
        self._socket.settimeout(left)
        count = self._raw.readinto(into)
        self._size += count or 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, end: float, connected: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(connected, *given, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Answer(connected, end))


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: str, /, *, timeout: float = 10.0, **named: Any) -> None:
        super().__init__(host, timeout=timeout, **named)
        self.response_class = partial(_Response, time.monotonic() + timeout)  # type: ignore[assignment]


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _Secure(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req, context=ssl.create_default_context())


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Plain, _Secure)
