"""The context of a request: its id, its trace and its line in the access log."""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, StreamingReply, Trace, read_trace
from modelflow.runtime.session.watcher import Watcher
from modelflow.serve.access.access_log import AccessLog
from modelflow.serve.access.payload_log import PayloadRecord, RequestIdentity
from modelflow.serve.access.quotas import Quota, Resource

if TYPE_CHECKING:
    from modelflow.serve.metrics.tracing.request_span import RequestSpan


MARKS = frozenset({"x-request-id", "traceparent"})
"""The optional request headers that identify a request."""

_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
_LONGEST_PATH = 1024  # characters of a path in the log
_GONE = 499  # nginx's status for a client that closed the connection before the reply


class RequestContext:
    """The context of one request, from its head to the end of its reply.

    Call the methods on the server's thread.

    Attributes:
        id: The id of the request in logs.
        headers: The headers that the context adds to the reply.
        quota: The limits of the request's key, or None.
        payload: The payloads of a request that the payload log has sampled, or None.
    """

    __slots__ = (
        "_asked",
        "_began",
        "_log",
        "_model",
        "_span",
        "_status",
        "_time",
        "_trace",
        "_version",
        "headers",
        "id",
        "is_single",
        "payload",
        "quota",
    )

    def __init__(
        self,
        found: Mapping[str, Sequence[str]],
        asked: Mapping[str, Any],
        log: AccessLog | None,
        span: "RequestSpan | None" = None,
    ) -> None:
        """Reads the id and the trace of the request.

        Args:
            found: The headers of the request, from `read_headers`.
            asked: The fields of the log line that describe the request, for example the client.
            log: The access log, or None for no line.
            span: The span that a tracer has started, or None. With None, the trace of the client is
                passed on unchanged.
        """
        self._span = span
        self.is_single = span is not None and span.watcher() is not None
        """The request must be read alone, because its rows are traced or limited."""
        self.quota: Quota | None = None
        self.payload: PayloadRecord | None = None
        if span is None:
            self._trace = read_trace(found.get("traceparent", ()), found.get("tracestate", ()))
        else:
            self._trace = span.trace
        self.id = _id(found.get("x-request-id", ()), self._trace)
        if span is not None:
            span.call(self.id)
        self.headers = {"x-request-id": self.id}
        if self._trace is not None:
            self.headers["traceparent"] = self._trace.parent
        self._log = log
        self._asked = asked
        self._model: str | None = None
        self._version: int | None = None
        self._status = _GONE
        self._time, self._began = time.time(), time.monotonic()

    def enter(self, model: str, version: int, rows: int = 0) -> Mapping[str, Any]:
        """Records the model of the request, and returns the context values for its session.

        Args:
            model: The name of the model.
            version: The version of the model.
            rows: The rows of the request, or 0 if they are not known yet.

        Raises:
            QuotaError: The rows exceed a limit of the request's key.
        """
        if self.quota is not None and rows:
            self.quota.take(Resource.ROWS, rows)
        self._model, self._version = model, version
        if self._span is not None:
            self._span.enter(model, version)
        context = {"request_id": self.id}
        if self._trace is not None:
            context["traceparent"] = self._trace.parent
            if self._trace.state:
                context["tracestate"] = self._trace.state
        return context

    @property
    def sampled_trace(self) -> str:
        """Returns the id of the request's trace if the trace is sampled, else ``""``."""
        return self._trace.id if self._trace is not None and self._trace.is_sampled else ""

    def limit(self, quota: Quota) -> None:
        """Makes the rows of the request count for the limits of its key."""
        self.quota = quota
        self.is_single = self.is_single or quota.has_rows

    def watcher(self) -> Watcher | None:
        """Returns the observer of the session's batches, or None without a span."""
        return None if self._span is None else self._span.watcher()

    @property
    def identity(self) -> RequestIdentity:
        """Returns the id of the request, and its model and version if they are known."""
        return RequestIdentity(self.id, self._model, self._version)

    def on_answer(self, reply: Reply | StreamingReply) -> Reply | StreamingReply:
        """Records the status of an HTTP reply. Returns the reply with the context's headers."""
        self._status = int(reply.status)
        if self.payload is not None and isinstance(reply, Reply):
            self.payload.answer(reply)
        if isinstance(reply, StreamingReply):
            return replace(reply, own=self.headers)
        return Reply(reply.status, reply.body, reply.headers, self.headers)

    def over(self, bytes_in: int, bytes_out: int) -> None:
        """Records that the reply was sent completely."""
        self.end(self._status, bytes_in, bytes_out)

    def on_cancel(self, bytes_in: int, bytes_out: int) -> None:
        """Records that the HTTP client has disconnected."""
        self.end(_GONE, bytes_in, bytes_out)

    def end(self, status: int | str, bytes_in: int, bytes_out: int) -> None:
        """Records the end of the request, in its span and in the access log.

        Args:
            status: The HTTP status, or the name of the gRPC status.
            bytes_in: The bytes of the body or of the request messages.
            bytes_out: The bytes of the reply.
        """
        if self._span is not None:
            self._span.end(status)
        if self.payload is not None:
            self.payload.end(self.identity, str(status), bytes_out)
        if self._log is None:
            return
        seconds, milliseconds = divmod(int(self._time * 1e3), 1000)
        line = {
            "time": f"{_format_time(seconds)}.{milliseconds:03}+00:00",
            "request_id": self.id,
            **self._asked,
            "model": self._model,
            "version": self._version,
            "status": status,
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
            "ms": round((time.monotonic() - self._began) * 1e3, 3),
        }
        if self._trace is not None:
            line["trace_id"] = self._trace.id
        self._log.write(line)


@lru_cache(maxsize=1)  # requests within one second share the text
def _format_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def describe_request(http_request: HttpRequest) -> Mapping[str, Any]:
    """Returns client, method and path of a request, for the access log.

    The path has no query, because a query may contain a key.
    """
    path = http_request.path[:_LONGEST_PATH]
    return {"client": http_request.client, "method": http_request.head.method, "path": path}


def read_headers(
    pairs: Iterable[tuple[Any, Any]], names: Collection[str | bytes]
) -> dict[str, list[str]]:
    """Returns the values of selected headers or metadata, by name.

    Args:
        pairs: Names in lower case, with values, as bytes or text.
        names: The names to select, in the type of the names in ``pairs``.
    """
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in names:
            found.setdefault(_text(name), []).append(_text(value))
    return found


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _id(given: Sequence[str], trace: Trace | None) -> str:
    """Returns the first given id that is valid in logs and headers, or a new id."""
    for one in given:
        if _ID.fullmatch(one):
            return one
    return os.urandom(16).hex() if trace is None else trace.id
