"""The payload log: requests and replies as CloudEvents, in a file or sent to a URL.

An event is a line of JSON (CloudEvents 1.0, structured mode) with the types of KServe's logger::

    {"specversion":"1.0","type":"org.kubeflow.serving.inference.request","id":"4bf9",
     "source":"modelflow://host","subject":"models/m/versions/1",...,"data":{"instances":[1.0]}}

A request and its reply have the same id. The server's thread only queues the bodies. The thread of
the log makes the JSON, writes, and waits for the receiver.
"""

import base64
import http.client
import random
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import urlsplit

from modelflow.errors import ConfigError
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.access_log import LogWriter, open_to_append
from modelflow.serve.access.shared_counts import Counted, SharedCounts
from modelflow.wire.json_reader import is_json
from modelflow.wire.json_writer import json_of

REQUEST = "org.kubeflow.serving.inference.request"
"""The type of the event for a request."""
RESPONSE = "org.kubeflow.serving.inference.response"
"""The type of the event for a reply."""

INFERENCE = frozenset(
    {
        "/inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/ModelStreamInfer",
        *(
            f"/tensorflow.serving.PredictionService/{name}"
            for name in ("Predict", "Classify", "Regress", "MultiInference")
        ),
    }
)
"""The gRPC methods whose messages are logged."""

PROTOBUF = "application/protobuf"
"""The content type of gRPC messages."""
_JSON, _BYTES = "application/json", "application/octet-stream"
# The types of bodies that stay bytes even if they look like JSON.
_NOT_JSON = (PROTOBUF, "text/", "image/", "multipart/")
_KIND = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}", re.ASCII)
# Most bytes of all queued bodies, and of one write.
_MOST_QUEUED, _MOST_AT_ONCE = 64 << 20, 1 << 20
# The bytes that an event needs beside its body. The bound on bytes is therefore the first reached.
_BESIDE = 1024
# Seconds for one event to reach the URL, and for the queued events at the end.
_POST_SECONDS, _LAST_SECONDS = 2.0, 1.0
_LEAST_REFUSED = 300  # HTTP statuses from here on are no success
_ANY_ZLIB = 47  # the `wbits` for gzip and zlib


class Payload(NamedTuple):
    """A body with its form.

    Attributes:
        data: The first bytes of the body.
        size: The length of the whole body. With fewer bytes in ``data``, the body is cut.
        kind: The ``Content-Type`` of the body, or ``""``.
        encoding: The ``Content-Encoding`` of the body, or ``""``.
    """

    data: bytes
    size: int
    kind: str
    encoding: str


class RequestIdentity(NamedTuple):
    """The request and its model, as far as they are known.

    Attributes:
        id: The id of the request.
        model: The name of the model, or None if the request has reached none.
        version: The version of the model.
    """

    id: str
    model: str | None
    version: int | None


class Event(NamedTuple):
    """An event that waits to be written.

    Attributes:
        type: `REQUEST` or `RESPONSE`.
        time: The time in seconds since 1970.
        operation: The path of the request, or the gRPC method.
        identity: The request and its model.
        status: The status of the reply, or None.
        sequence: The number of the message in a gRPC stream, or 0.
        payload: The body, or None.
    """

    type: str
    time: float
    operation: str
    identity: RequestIdentity
    status: str | None
    sequence: int
    payload: Payload | None


class PayloadLog(LogWriter):
    """A writer of events. Call `write` on the server's thread."""

    def __init__(
        self, destination: str, percent: float, most: int, counts: SharedCounts | None = None
    ) -> None:
        """Opens the destination and starts the thread.

        Args:
            destination: The file to append to, or an http or https URL.
            percent: The share of requests to log, in percent.
            most: Most bytes of a body. A longer body is cut.
            counts: The counters of written and lost events.

        Raises:
            ConfigError: The file cannot be written, or the URL is invalid.
        """
        self.most = most
        self._share = percent / 100
        self._counts = SharedCounts() if counts is None else counts
        self._source = f"modelflow://{socket.gethostname()}"
        self._is_url = destination.partition("://")[0].lower() in ("http", "https")
        # Each is changed by one thread alone: the bytes queued so far, and taken from the queue.
        self._queued = self._taken = 0
        self._until: float | None = None
        super().__init__("payload log", destination, 1 if self._is_url else _MOST_AT_ONCE)

    def samples(self) -> bool:
        """Returns whether to log the next request."""
        return self._share >= 1 or random.random() < self._share

    def cut(self, body: bytes, kind: str = "", encoding: str = "") -> Payload:
        """Returns a body without the bytes beyond the limit."""
        return Payload(body[: self.most], len(body), kind, encoding)

    def write(self, entry: Event) -> None:
        """Queues an event, or drops the event if the queued bodies have too many bytes."""
        size = _BESIDE + (0 if entry.payload is None else len(entry.payload.data))
        if self._queued - self._taken + size > _MOST_QUEUED:
            self._lose(1)
        else:
            self._queued += size
            super().write(entry)

    def _open(self) -> BinaryIO:
        if self._is_url:
            return cast("BinaryIO", _EventSink(self._path))
        return open_to_append(self._title, self._path)

    def _encode(self, entry: Event) -> Iterable[bytes]:
        self._taken += _BESIDE + (0 if entry.payload is None else len(entry.payload.data))
        return (self._line(entry),)

    def _line(self, event: Event) -> bytes:
        found: dict[str, Any] = {
            "specversion": "1.0",
            "type": event.type,
            "id": event.identity.id,
            "source": self._source,
            "time": f"{_format_seconds(int(event.time))}.{int(event.time % 1 * 1e6):06}Z",
            "operation": event.operation,
        }
        _, model, version = event.identity
        if model is not None:
            found["subject"] = f"models/{model}/versions/{version}"
            found["inferenceservicename"] = model
            found["modelversion"] = str(version)
        if event.status is not None:
            found["status"] = event.status
        if event.sequence:
            found["sequence"] = str(event.sequence)
        data = b""
        if event.payload is not None:
            more, data = _describe(event.payload, self.most)
            found.update(more)
        return json_of(found, is_plain=True)[:-1] + data + b"}\n"

    def _put(self, text: bytes) -> None:
        if self._until is not None and time.monotonic() >= self._until:
            self._lose(text.count(b"\n"))
            return
        super()._put(text)
        if not self._is_failing:
            self._counts.add(Counted.LOGGED, text.count(b"\n"))

    def _lose(self, count: int) -> None:
        super()._lose(count)
        self._counts.add(Counted.LOST, count)

    def _wait(self) -> None:
        self._until = time.monotonic() + _LAST_SECONDS
        self._thread.join(_LAST_SECONDS)
        if self._thread.is_alive() and isinstance(self._file, _EventSink):
            self._file.abort()
        self._thread.join()


@lru_cache(maxsize=2)  # events within one second share the text
def _format_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _describe(payload: Payload, most: int) -> tuple[Mapping[str, Any], bytes]:
    """Returns the attributes of a body, and the last member of the event with its data."""
    data, is_cut = payload.data, len(payload.data) < payload.size
    if payload.encoding and not is_cut:
        with suppress(zlib.error):  # the bytes themselves are logged then
            data = zlib.decompressobj(_ANY_ZLIB).decompress(data, most + 1)
            data, is_cut = data[:most], len(data) > most
    more: dict[str, Any] = {"payloadsize": payload.size}
    if is_cut:
        more["payloadcut"] = True
    elif not payload.kind.startswith(_NOT_JSON) and is_json(data):
        if b"\n" in data or b"\r" in data:
            data = data.translate(_SPACES)  # between its parts, because an event is one line
        more["datacontenttype"] = _JSON
        return more, b',"data":' + data
    kind = _KIND.match(payload.kind)
    more["datacontenttype"] = kind[0] if kind else _BYTES
    return more, b',"data_base64":"' + base64.b64encode(data) + b'"'


_SPACES = bytes.maketrans(b"\r\n", b"  ")


class _EventSink:
    """A receiver of events at a URL, with the methods of a file. Used on the log's thread."""

    def __init__(self, url: str) -> None:
        expected = "expected http://HOST/PATH or https://HOST/PATH"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(
                f"payload log: got a URL with an invalid host or port; {expected}"
            ) from error
        if not parts.hostname or parts.username is not None:
            what = "without a host" if not parts.hostname else "with a user name"
            raise ConfigError(f"payload log: got a URL {what}; {expected}")
        self._make = partial(
            http.client.HTTPConnection if parts.scheme == "http" else http.client.HTTPSConnection,
            parts.hostname,
            port,
            timeout=_POST_SECONDS,
        )
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection: http.client.HTTPConnection | None = None
        self._ending = threading.Lock()
        self._is_aborted = False

    def write(self, line: bytes) -> int:
        """Sends an event, and waits for the answer.

        Raises:
            OSError: The event did not arrive, or was refused.
        """
        is_new = self._connection is None
        try:
            status = self._post(line)
        except ConnectionError:
            self.close()
            if is_new:
                raise
            status = self._post(line)  # the receiver had closed the idle connection
        if status >= _LEAST_REFUSED:
            raise OSError(f"the receiver has answered {status}; expected 2xx")
        return len(line)

    def _post(self, line: bytes) -> int:
        with self._ending:
            if self._is_aborted:
                raise OSError("the server ends, and the receiver has not answered in time")
            connection = self._connection = self._connection or self._make()
        headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
        try:
            connection.request("POST", self._target, line[:-1], headers)
            response = connection.getresponse()
            response.read()
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionResetError(f"no HTTP answer: {error!r}") from error
        except OSError:
            self.close()
            raise
        return response.status

    def flush(self) -> None:
        """Does nothing, because `write` waits for the answer."""

    def close(self) -> None:
        """Closes the connection. The next event opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abort(self) -> None:
        """Ends a `write` that waits, from another thread."""
        with self._ending:
            self._is_aborted = True
            connection = self._connection
        if connection is not None and (sock := connection.sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class PayloadRecord:
    """The payloads of one logged request. Call the methods on the server's thread.

    A request and its reply are queued together at the end. The messages of a gRPC stream are queued
    at once, and the last event of a stream has the status and no data.
    """

    __slots__ = (
        "_began",
        "_http_request",
        "_in",
        "_log",
        "_operation",
        "_out",
        "_reply",
        "_request",
    )

    def __init__(
        self,
        log: PayloadLog,
        operation: str,
        http_request: HttpRequest | None = None,
        *,
        is_stream: bool = False,
    ) -> None:
        """Stores the log and the operation.

        Args:
            log: The log.
            operation: The path of the request, or the gRPC method.
            http_request: The HTTP request, or None for a gRPC call.
            is_stream: Whether the call has any number of messages.
        """
        self._log = log
        self._operation = operation
        self._http_request = http_request
        self._began = time.time()
        self._request: Payload | None = None
        self._reply: Payload | None = None
        # the number of messages in a stream, or None
        self._in: int | None = 0 if is_stream else None
        self._out = 0

    def answer(self, reply: Reply) -> None:
        """Stores the reply to an HTTP request."""
        headers = reply.headers
        kind, encoding = headers.get("content-type", ""), headers.get("content-encoding", "")
        self._reply = self._log.cut(reply.body, kind, encoding)

    def receive(self, data: bytes, identity: RequestIdentity) -> None:
        """Logs a message of a gRPC client."""
        self._request = self._log.cut(data, PROTOBUF)
        if self._in is not None:
            self._in += 1
            self._write(REQUEST, time.time(), identity, self._request, sequence=self._in)

    def send(self, data: bytes, identity: RequestIdentity) -> None:
        """Logs a reply message of gRPC."""
        self._reply = self._log.cut(data, PROTOBUF)
        if self._in is not None:
            self._out += 1
            self._write(RESPONSE, time.time(), identity, self._reply, sequence=self._out)

    def end(self, identity: RequestIdentity, status: str, bytes_out: int) -> None:
        """Logs the end of the request.

        Args:
            identity: The request and its model.
            status: The status of the reply.
            bytes_out: The length of a streamed HTTP reply, whose data is not logged.
        """
        if self._in is not None:
            self._write(RESPONSE, time.time(), identity, None, status)
            return
        http_request, self._http_request = self._http_request, None
        reply = self._reply
        if http_request is not None:
            kind, encoding = (
                http_request.head.named.get(name, b"").decode("latin-1")
                for name in (b"content-type", b"content-encoding")
            )
            self._request = self._log.cut(http_request.body, kind, encoding)
            if reply is None and bytes_out:
                reply = Payload(b"", bytes_out, "", "")
        self._write(REQUEST, self._began, identity, self._request)
        self._write(RESPONSE, time.time(), identity, reply, status)

    def _write(
        self,
        kind: str,
        when: float,
        identity: RequestIdentity,
        payload: Payload | None,
        status: str | None = None,
        sequence: int = 0,
    ) -> None:
        self._log.write(Event(kind, when, self._operation, identity, status, sequence, payload))
