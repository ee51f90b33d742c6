"""`Server`: flows, and the listeners that clients reach them by."""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from modelflow.errors import ConfigError
from modelflow.flow import Flow
from modelflow.http.body import BodyBudget, BodyLimits, RefusedError
from modelflow.http.endpoint import Endpoint as Address
from modelflow.http.exchange import Exchange
from modelflow.http.limits import ConnectionLimits
from modelflow.http.reply import Reply
from modelflow.http.server import Server as HttpServer
from modelflow.http.server import bound_socket
from modelflow.serve.generate import Generate
from modelflow.serve.grpc.open_inference import OpenInferenceGrpc
from modelflow.serve.grpc.tf_serving import TensorflowGrpc
from modelflow.serve.metrics import Metrics
from modelflow.serve.models import Models
from modelflow.serve.open_inference_rest import OpenInferenceRest
from modelflow.serve.refusal import refusal
from modelflow.serve.router import find
from modelflow.serve.served_model import ServedModel
from modelflow.serve.tensorflow_rest import TensorflowRest
from modelflow.wire.problem import Code, Problem

if TYPE_CHECKING:
    from modelflow.serve.grpc.server import GrpcServer

__all__ = ["ServeOptions", "Server"]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a server listens, and what it takes.

    Attributes:
        host: The address; other machines reach it only at one of the network.
        http_port: 0: any that is free.
        grpc_host: The address for gRPC.
        grpc_port: 8500 is TensorFlow Serving's; 0: any that is free; None: no gRPC.
        max_requests: Most requests to one model that have no answer yet; one more is answered 503.
        max_calls: Most gRPC calls at once, open streams among them.
        max_body: Most bytes of a body, or a gRPC message; a longer one is answered 413, or
            RESOURCE_EXHAUSTED.
        max_bodies: Most bytes of all bodies and messages that are read or worked on.
        body_time_out: Seconds within which a body must be there.
        drain_timeout: Seconds within which a stop lets the requests under way be answered.
        connections: What connections may cost.
    """

    host: str = "127.0.0.1"
    http_port: int = 8501
    grpc_host: str = "127.0.0.1"
    grpc_port: int | None = None
    max_requests: int = 1000
    max_calls: int = 10_000
    max_body: int = 64 << 20
    max_bodies: int = 1 << 30
    body_time_out: float = 30.0
    drain_timeout: float = 30.0
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)


class Server:
    """Serves flows to the clients of TensorFlow Serving and of Open Inference.

    For programs and tests::

    with modelflow.serve.Server({"digits": "graphs/digits.toml"}) as server:
        print(server.address)
    """

    def __init__(
        self, sources: Mapping[str, str | Path | Flow], options: ServeOptions | None = None
    ) -> None:
        """Takes what to serve; loads nothing yet.

        Args:
            sources: By the model's name a graph file, or a `Flow` that does not run yet.
            options: Where to listen, and what to take.

        Raises:
            ConfigError: there is nothing to serve.
        """
        if not sources:
            message = "there is nothing to serve; give a graph: modelflow serve graph.toml"
            raise ConfigError(message)
        self.options = options or ServeOptions()
        self._sources = sources
        self._flows: list[Flow] = []
        self._models = Models()
        self._http: HttpServer | None = None
        self._ending = threading.Lock()
        self.address = ""
        """Where it answers, once it is started: ``http://127.0.0.1:8501``."""
        self.grpc_address = ""
        """Where it answers gRPC, once it is started and asked to: ``127.0.0.1:8500``."""

    def start(self) -> Self:
        """Loads every flow and begins to answer; returns when it does.

        Raises:
            OSError: an address is in use.
            MissingDependencyError: gRPC is wanted, and not installed.
            FlowFailed, GraphError, ConfigError: a flow cannot be loaded; nothing runs then.
        """
        try:
            with contextlib.ExitStack() as addresses:  # the servers have sockets of their own
                self._start(addresses)
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, addresses: contextlib.ExitStack) -> None:
        options = self.options
        bound = addresses.enter_context(bound_socket(Address(options.host, options.http_port)))
        budget = BodyBudget(options.max_bodies)
        guest = self._grpc(addresses, budget)  # before anything is loaded, which takes time
        flows = {name: self._flow(source) for name, source in self._sources.items()}
        for flow in flows.values():
            flow.start()
            self._flows.append(flow)
        self._http = HttpServer(bound, _Front(self._models, options, budget), options.connections)
        for name, flow in flows.items():
            mailbox = self._http.mailbox
            self._models.add(ServedModel(name, 1, flow, mailbox, options.max_requests))
        if guest is not None:
            self._http.invite(guest)
            self.grpc_address = guest.address
        host, port = bound.getsockname()[:2]
        self.address = f"http://{host}:{port}"

    def _grpc(self, addresses: contextlib.ExitStack, budget: BodyBudget) -> "GrpcServer | None":
        options = self.options
        if options.grpc_port is None:
            return None
        from modelflow.serve.grpc.server import GrpcLimits, GrpcServer, grpc_socket

        bound = addresses.enter_context(grpc_socket(options.grpc_host, options.grpc_port))
        services = (
            *TensorflowGrpc(self._models).services,
            *OpenInferenceGrpc(self._models).services,
        )
        limits = GrpcLimits(options.max_body, budget, options.max_calls)
        return GrpcServer(bound, services, limits)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of what is served."""
        return tuple(self._sources)

    def model(self, name: str) -> ServedModel:
        """Returns what is served under a name, in its newest version, while it is.

        Raises:
            Problem: there is none.
        """
        return self._models.find(name)

    def stop(self, drain: bool = True) -> None:
        """Ends it: no new requests, every flow is stopped. May be called again, from any thread.

        Args:
            drain: Requests under way are answered first, within ``drain_timeout`` seconds.
        """
        with self._ending:
            if self._http is not None:
                self._http.close(self.options.drain_timeout if drain else 0.0)
                self._http = None
            flows, self._flows = self._flows, []
            for flow in flows:
                flow.stop(drain)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @staticmethod
    def _flow(source: str | Path | Flow) -> Flow:
        return source if isinstance(source, Flow) else Flow(source)


class _Front:
    """Answers every request that comes over HTTP. On the server's thread."""

    def __init__(self, models: Models, options: ServeOptions, budget: BodyBudget) -> None:
        self._limits = BodyLimits(options.max_body, budget, options.body_time_out)
        self._endpoints = (
            *TensorflowRest(models).endpoints,
            *OpenInferenceRest(models, options.max_body).endpoints,
            *Generate(models, options.max_body).endpoints,
            *Metrics(models).endpoints,
        )

    def begin(self, exchange: Exchange) -> BodyLimits:
        """Finds out who answers a request.

        Raises:
            RefusedError: nobody does.
        """
        found = find(self._endpoints, exchange)
        if isinstance(found, Reply):
            if found.status == HTTPStatus.NOT_FOUND:
                message = f"Malformed request: {exchange.method} {exchange.path}"
                found = refusal(Problem(message, Code.NOT_FOUND))
            raise RefusedError(found)
        return self._limits

    def handle(self, exchange: Exchange) -> None:
        """Answers a whole request, now or later."""
        exchange.on_end = partial(self._limits.budget.give_back, len(exchange.body))
        found = find(self._endpoints, exchange)
        assert not isinstance(found, Reply)  # `begin` has found it
        try:
            found()
        except Problem as problem:
            exchange.answer(refusal(problem))
