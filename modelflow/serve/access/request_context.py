"""What is known of a request beside what it asks: its id, its trace, its line in the access log."""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, StreamingReply, Trace, read_trace
from modelflow.runtime.session.watcher import Watcher
from modelflow.serve.access.access_log import AccessLog

if TYPE_CHECKING:
    from modelflow.serve.metrics.tracing.request_span import RequestSpan


MARKS = frozenset({"x-request-id", "traceparent"})
"""Headers that a request brings, or none, to be known by."""

_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
_LONGEST_PATH = 1024  # characters, in the log
_GONE = 499  # what others, too, write for a client that did not wait for its answer


class RequestContext:
    """One request from its head to its answer. For the server's thread.

    Attributes:
        id: What the request is called in logs.
        headers: What its answer bears beside its own headers.
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
    )

    def __init__(
        self,
        found: Mapping[str, Sequence[str]],
        asked: Mapping[str, Any],
        log: AccessLog | None,
        span: "RequestSpan | None" = None,
    ) -> None:
        """Begins.

        Args:
            found: Its headers, of `read_headers`.
            asked: Who asks for what, as the log says it.
            log: Where it gets its line; None: nowhere.
            span: What a tracer has begun for it; None: its trace is passed on as it came.
        """
        self._span = span
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

    def enter(self, model: str, version: int) -> Mapping[str, Any]:
        """Notes which model it is for; returns what its session is told."""
        self._model, self._version = model, version
        if self._span is not None:
            self._span.enter(model, version)
        context = {"request_id": self.id}
        if self._trace is not None:
            context["traceparent"] = self._trace.parent
            if self._trace.state:
                context["tracestate"] = self._trace.state
        return context

    def watcher(self) -> Watcher | None:
        """Returns who is told of the batches that a session of its is in; None: nobody."""
        return None if self._span is None else self._span.watcher()

    def on_answer(self, reply: Reply | StreamingReply) -> Reply | StreamingReply:
        """Notes how a request over HTTP is answered; returns the answer as it goes out."""
        self._status = int(reply.status)
        if isinstance(reply, StreamingReply):
            return replace(reply, own=self.headers)
        return Reply(reply.status, reply.body, reply.headers, self.headers)

    def over(self, bytes_in: int, bytes_out: int) -> None:
        """Notes that all of that answer was given."""
        self.end(self._status, bytes_in, bytes_out)

    def on_cancel(self, bytes_in: int, bytes_out: int) -> None:
        """Notes that who asked over HTTP has gone away."""
        self.end(_GONE, bytes_in, bytes_out)

    def end(self, status: int | str, bytes_in: int, bytes_out: int) -> None:
        """Notes that it is over.

        Args:
            status: HTTP's number, or gRPC's word.
            bytes_in: Those of the body, or of messages.
            bytes_out: Those of the answer.
        """
        if self._span is not None:
            self._span.end(status)
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


@lru_cache(maxsize=1)  # requests of a second have one
def _format_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def describe_request(http_request: HttpRequest) -> Mapping[str, Any]:
    """Returns who asks for what; without the query, in which somebody may have put a key."""
    path = http_request.path[:_LONGEST_PATH]
    return {"client": http_request.client, "method": http_request.head.method, "path": path}


def read_headers(pairs: Iterable[tuple[Any, Any]], names: frozenset[str]) -> dict[str, list[str]]:
    """Returns the values of some headers or metadata, by name.

    Args:
        pairs: Names in lower case, and values; bytes or text.
        names: Those that are wanted.
    """
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        key = _text(name)
        if key in names:
            found.setdefault(key, []).append(_text(value))
    return found


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _id(given: Sequence[str], trace: Trace | None) -> str:
    """The id that was given, if it is fit to stand in logs and headers, or another."""
    for one in given:
        if _ID.fullmatch(one):
            return one
    return os.urandom(16).hex() if trace is None else trace.id
