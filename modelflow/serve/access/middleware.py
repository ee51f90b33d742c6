"""The checks and records for every request before its handler: id, key, log line, span."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from modelflow.http.reply import RefusedError
from modelflow.http.request import HttpRequest
from modelflow.serve.access.access_log import AccessLog
from modelflow.serve.access.cors import Cors
from modelflow.serve.access.error_reply import refusal
from modelflow.serve.access.keys import Group, Keys, key_of
from modelflow.serve.access.payload_log import INFERENCE, PayloadLog, PayloadRecord
from modelflow.serve.access.quotas import Quota, Resource
from modelflow.serve.access.request_context import (
    MARKS,
    RequestContext,
    describe_request,
    read_headers,
)
from modelflow.serve.access.router import Form
from modelflow.serve.access.shared_counts import SharedCounts
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.serve.metrics.tracing.tracer import Tracer


_ORIGIN = "origin"
# Names as gRPC has them, and as HTTP has them.
_KEYS: frozenset[str | bytes] = frozenset(
    {"x-api-key", "authorization", b"x-api-key", b"authorization"}
)
_TOLD = MARKS | {"tracestate", _ORIGIN}
_TOLD_BYTES = frozenset(name.encode() for name in _TOLD)
# Health probes and metrics scrapers call often and use no model, so their calls get no span.
_TRACED = frozenset({Group.INFER, Group.REPOSITORY})


class Middleware:
    """The checks for requests of both protocols. Call the methods on the server's thread.

    Without keys, log and tracer, a request without the headers in `marks` costs nothing here.

    Attributes:
        marks: The headers that make `receive` necessary for an HTTP request.
        sees_all: Whether `receive` is necessary for every request.
        keys: The API keys, or None if requests need no key.
        tracer: Starts a span for each request, or None without tracing.
        counts: The counters that the processes of the server share.
        payloads: The payload log, or None without one.
    """

    def __init__(
        self,
        keys: Keys | None = None,
        log: AccessLog | None = None,
        cors: Cors | None = None,
        tracer: "Tracer | None" = None,
        counts: SharedCounts | None = None,
        payloads: PayloadLog | None = None,
    ) -> None:
        """Stores the parts. None switches a part off."""
        self.keys = keys
        self.counts = SharedCounts() if counts is None else counts
        self.tracer = tracer
        self.payloads = payloads
        self.sees_all = any(one is not None for one in (keys, log, tracer, payloads))
        self._log = log
        self._cors = cors
        names = MARKS if cors is None else MARKS | {_ORIGIN}
        self.marks = frozenset(name.encode() for name in names)

    def receive(self, http_request: HttpRequest, form: Form) -> None:
        """Creates the context of an HTTP request, and answers CORS preflights.

        Args:
            http_request: The request.
            form: The route and the key group of the path.

        Raises:
            RefusedError: The request is a preflight. The error holds the reply.
        """
        head, found = http_request.head, {}
        if not _TOLD_BYTES.isdisjoint(head.named):
            found = read_headers(head.headers, _TOLD_BYTES)
        span = None
        if self.tracer is not None and form.group in _TRACED:
            span = self.tracer.over_http(http_request, form.route, found)
        asked = {} if self._log is None else describe_request(http_request)
        request_context = RequestContext(found, asked, self._log, span)
        http_request.request_context = request_context
        if (
            self.payloads is not None
            and form.group is Group.INFER
            and head.method == "POST"
            and self.payloads.samples()
        ):
            request_context.payload = PayloadRecord(self.payloads, http_request.path, http_request)
        if self._cors is not None and (origins := found.get(_ORIGIN)):
            reply = self._cors.preflight(http_request, origins[0])
            if reply is not None:
                raise RefusedError(reply)
            request_context.headers.update(self._cors.headers(origins[0]))

    def admit(self, http_request: HttpRequest, group: Group | None) -> None:
        """Checks the key of an HTTP request.

        Raises:
            RefusedError: The key does not open the group, or has reached a limit.
        """
        try:
            quota = self._check(http_request.head.headers, group)
            if quota is not None and group is Group.INFER:
                quota.take(Resource.REQUESTS)
                context = http_request.request_context
                assert isinstance(context, RequestContext)  # `receive` has made it
                context.limit(quota)
        except Problem as problem:
            raise RefusedError(refusal(problem)) from problem

    def receive_call(
        self,
        method: str,
        group: Group | None,
        metadata: Sequence[Any],
        peer: Callable[[], str],
    ) -> RequestContext | None:
        """Returns the context of a gRPC call, or None if the call needs no context.

        Args:
            method: The full method name: ``/SERVICE/METHOD``.
            group: The group that a key must open for this call.
            metadata: Names in lower case, with values.
            peer: Returns the client's address.
        """
        is_seen = self.sees_all
        for name, _ in metadata:
            is_seen = is_seen or name in MARKS
        if not is_seen:
            return None
        # A gRPC peer is ipv4:127.0.0.1:50000, or ipv6:%5B::1%5D:50000 with escaped brackets.
        client, found = unquote(peer().partition(":")[2]) or "unix", read_headers(metadata, _TOLD)
        span = None
        if self.tracer is not None and group in _TRACED:
            span = self.tracer.over_grpc(method, client, found)
        request_context = RequestContext(found, {"client": client, "rpc": method}, self._log, span)
        if self.payloads is not None and method in INFERENCE and self.payloads.samples():
            is_stream = method.endswith("ModelStreamInfer")
            request_context.payload = PayloadRecord(self.payloads, method, is_stream=is_stream)
        return request_context

    def admit_call(self, metadata: Sequence[Any], group: Group | None) -> Quota | None:
        """Checks the key of a gRPC call. Returns the limits that its messages count for.

        Raises:
            Problem: The key does not open the group.
        """
        quota = None if self.keys is None else self._check(metadata, group)
        return quota if group is Group.INFER else None

    def _check(self, pairs: Sequence[tuple[Any, Any]], group: Group | None) -> Quota | None:
        if self.keys is None or group is None:
            return None
        found = read_headers(pairs, _KEYS)
        key, authorization = (
            next(iter(found.get(name, ())), None) for name in ("x-api-key", "authorization")
        )
        return self.keys.check(key_of(key, authorization), group)
