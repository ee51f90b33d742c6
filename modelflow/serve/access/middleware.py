"""What every request passes before anybody answers it: its id, its key, its line in the log."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from modelflow.http.reply import RefusedError
from modelflow.http.request import HttpRequest
from modelflow.serve.access.access_log import AccessLog
from modelflow.serve.access.cors import Cors
from modelflow.serve.access.error_reply import refusal
from modelflow.serve.access.keys import Group, Keys, key_of
from modelflow.serve.access.request_context import (
    MARKS,
    RequestContext,
    describe_request,
    read_headers,
)
from modelflow.serve.access.router import Form
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.serve.metrics.tracing.tracer import Tracer


_ORIGIN = "origin"
_KEYS = frozenset({"x-api-key", "authorization"})
_TOLD = MARKS | {"tracestate", _ORIGIN}
_TOLD_BYTES = frozenset(name.encode() for name in _TOLD)
# Probes and those that collect figures come all the time, and ask no model.
_TRACED = frozenset({Group.INFER, Group.REPOSITORY})


class Middleware:
    """Receives requests of both protocols. For the server's thread.

    A request that brings nothing to be known by costs nothing here, unless somebody wants to know
    of every request.

    Attributes:
        marks: The headers for which a request over HTTP is to be received.
        sees_all: Every request is to be.
        keys: Who may ask; None: everybody.
        tracer: Who begins a span for each; None: nobody.
    """

    def __init__(
        self,
        keys: Keys | None = None,
        log: AccessLog | None = None,
        cors: Cors | None = None,
        tracer: "Tracer | None" = None,
    ) -> None:
        """Takes what there is to be looked at; None: it is not."""
        self.keys = keys
        self.tracer = tracer
        self.sees_all = any(one is not None for one in (keys, log, tracer))
        self._log = log
        self._cors = cors
        names = MARKS if cors is None else MARKS | {_ORIGIN}
        self.marks = frozenset(name.encode() for name in names)

    def receive(self, http_request: HttpRequest, form: Form) -> None:
        """Receives a request over HTTP.

        Args:
            http_request: The request.
            form: What its path is like.

        Raises:
            RefusedError: it is answered already.
        """
        head, found = http_request.head, {}
        if not _TOLD_BYTES.isdisjoint(head.named):
            found = read_headers(head.headers, _TOLD)
        span = None
        if self.tracer is not None and form.group in _TRACED:
            span = self.tracer.over_http(http_request, form.route, found)
        request_context = RequestContext(found, describe_request(http_request), self._log, span)
        http_request.request_context = request_context
        if self._cors is not None and (origins := found.get(_ORIGIN)):
            reply = self._cors.preflight(http_request, origins[0])
            if reply is not None:
                raise RefusedError(reply)
            request_context.headers.update(self._cors.headers(origins[0]))

    def admit(self, http_request: HttpRequest, group: Group | None) -> None:
        """Checks the key of a request over HTTP.

        Raises:
            RefusedError: it does not open the group.
        """
        try:
            self._check(http_request.head.headers, group)
        except Problem as problem:
            raise RefusedError(refusal(problem)) from problem

    def receive_call(
        self,
        method: str,
        group: Group | None,
        metadata: Sequence[Any],
        peer: Callable[[], str],
    ) -> RequestContext | None:
        """Receives a call over gRPC; None: nothing is noted of it.

        Args:
            method: What is called: ``/SERVICE/METHOD``.
            group: What a key must open for that.
            metadata: Names in lower case, and values.
            peer: Gives the client's address.
        """
        is_seen = self.sees_all
        for name, _ in metadata:
            is_seen = is_seen or name in MARKS
        if not is_seen:
            return None
        # gRPC says ipv4:127.0.0.1:50000, and escapes the brackets of the other family.
        client, found = unquote(peer().partition(":")[2]), read_headers(metadata, _TOLD)
        span = None
        if self.tracer is not None and group in _TRACED:
            span = self.tracer.over_grpc(method, client, found)
        return RequestContext(found, {"client": client, "rpc": method}, self._log, span)

    def admit_call(self, metadata: Sequence[Any], group: Group | None) -> None:
        """Checks the key of a call over gRPC.

        Raises:
            Problem: it does not open the group.
        """
        if self.keys is not None:
            self._check(metadata, group)

    def _check(self, pairs: Sequence[tuple[Any, Any]], group: Group | None) -> None:
        if self.keys is None or group is None:
            return
        found = read_headers(pairs, _KEYS)
        key, authorization = (
            next(iter(found.get(name, ())), None) for name in ("x-api-key", "authorization")
        )
        self.keys.check(key_of(key, authorization), group)
