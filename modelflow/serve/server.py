"""The server: models, and the HTTP and gRPC listeners for their clients."""

import contextlib
import logging
import queue
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from modelflow.errors import Cancelled, StreamClosed
from modelflow.files.unix_socket import SocketFile, address_parts, is_unix
from modelflow.http.accept import InheritedConnections
from modelflow.http.options import Endpoint as Address
from modelflow.http.options import join_address
from modelflow.http.reply import BodyBudget
from modelflow.http.server import Server as HttpServer
from modelflow.http.server import bind_socket
from modelflow.log import LEVELS
from modelflow.serve.access.access_control import AccessControl
from modelflow.serve.grpc.address import grpc_socket
from modelflow.serve.grpc.choice import server_of
from modelflow.serve.grpc.open_inference import OpenInferenceGrpc
from modelflow.serve.grpc.server import GrpcServer
from modelflow.serve.grpc.standard_services import Health
from modelflow.serve.grpc.tf_serving import TensorflowGrpc
from modelflow.serve.http.frontend import HttpFrontend
from modelflow.serve.interfaces import ModelSource
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.loader import Loader
from modelflow.serve.requests.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from modelflow.flow import Flow
    from modelflow.serve.processes.member.replica import ReplicaMember
    from modelflow.serve.repository.config import ServeConfig

__all__ = ["ServeOptions", "Server"]

logger = logging.getLogger(__name__)


class _ListensAlreadyError(StreamClosed):
    pass


class Server:
    """A server of models for the clients of TensorFlow Serving and of Open Inference.

    A server runs in one process. ``modelflow serve --replicas N`` and ``--workers N`` run several
    processes with one server each. In a program::

        with Server({"digits": "graphs/digits.toml"}) as server:
            print(server.address)
    """

    def __init__(
        self,
        sources: "Mapping[str, str | Path | Flow] | ServeConfig",
        options: ServeOptions | None = None,
        member: "ReplicaMember | None" = None,
    ) -> None:
        """Stores the sources and the options. Loads no model yet.

        Args:
            sources: The models by name, or a `ServeConfig`. Each model is a graph file, a model
                file, a folder with versions, or a `Flow` that does not run yet.
            options: The addresses and the limits.
            member: The link to the supervisor if this server is one of several processes, or None.

        Raises:
            ConfigError: The sources hold no model.
        """
        self.options = options or ServeOptions()
        self._loader = Loader(self.options.load_timeout)
        self._member = member
        self._stock = self._stock_of(sources)
        self._group = self._stock.replica_group if member is None else member.join(self._stock)
        self._grpc_server: GrpcServer | None = None
        self._http: HttpServer | None = None
        self._frontend: HttpFrontend | None = None
        self._access: AccessControl | None = None
        self._socket_files: list[SocketFile] = []
        # reentrant: a signal handler may call `stop` inside `start` or `stop`
        self._ending = threading.RLock()
        # `put` is reentrant, for signal handlers
        self._settled: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._hurry: queue.SimpleQueue[None] = queue.SimpleQueue()  # likewise
        self._health: Health | None = None
        self._is_busy = False  # a frame below holds `_ending`, and checks `is_stopped` at its end
        self._is_hurried = False
        self.is_stopped = False
        """Whether the server has ended or is about to end."""
        self.address = ""
        """The URL after `listen`: ``http://127.0.0.1:8501``, or ``https://`` with TLS.

        For a Unix socket, ``unix:PATH``.
        """
        self.grpc_address = ""
        """The address for gRPC after `listen`, for example ``127.0.0.1:8500``, or ``""``."""

    def _stock_of(self, sources: "Mapping[str, str | Path | Flow] | ServeConfig") -> ModelSource:
        member = self._member
        if member is not None and (stock := member.stock(self.options)) is not None:
            return stock
        from modelflow.serve.repository.repository import Repository  # loads the runtime

        if member is None:
            return Repository(sources, self.options, self._loader)
        own = Repository(
            sources,
            self.options,
            self._loader,
            member.unloaded,
            member.activity,
            member.tunings,
            may_be_empty=member.is_part,
        )
        return member.extend(own, self.options)

    def start(self) -> Self:
        """Listens, and returns when every load was tried.

        If a model fails to load, the log and the replies to its clients give the reason. The other
        models are served.

        Raises:
            OSError, MissingDependencyError, ConfigError: As in `listen`.
            FlowFailed, GraphError, EngineError: No model can be loaded. The server is then stopped.
        """
        try:
            self.listen()
            self.wait_until_loaded()
        except _ListensAlreadyError:  # the server keeps running
            raise
        except BaseException:
            self.stop(drain=False)
            raise
        return self

    def listen(self) -> None:
        """Begins to listen and to load the models.

        Until a model is loaded, requests for the model are answered 503.

        Raises:
            Cancelled: The server was stopped.
            StreamClosed: The server listens already.
            OSError: An address is in use.
            MissingDependencyError: The options enable gRPC or tracing, whose package is missing.
            ConfigError: A path holds no model, or the certificate, its key or the API keys are
                invalid.
        """
        found = self._stock.look()
        with contextlib.ExitStack() as addresses, self._ending:  # the servers use copies
            self._check_runs()
            if self._http is not None:
                raise _ListensAlreadyError(f"the server listens already, at {self.address}")
            with self._busy():
                counts = None if self._member is None else self._member.shared_counts
                self._access = AccessControl(self.options, counts)  # bad keys open no port
                self._listen(addresses, self._access)
            if self.is_stopped:  # a signal handler called `stop` during `_listen`
                self.stop(drain=False)
                self._check_runs()
        if found:
            names = ", ".join(found)
            logger.log(LEVELS["NOTICE"], "listens at %s; loads %s", self.address, names)

    @contextlib.contextmanager
    def _busy(self) -> "Iterator[None]":
        try:
            self._is_busy = True
            yield
        finally:
            self._is_busy = False

    def _listen(self, addresses: contextlib.ExitStack, access: AccessControl) -> None:
        options = self.options
        bound = self._bind(addresses)
        if isinstance(bound, InheritedConnections):
            host, port = bound.address
        else:
            host, port = address_parts(bound)
        scheme = "http" if access.tls is None else "https"
        self.address = host if is_unix(host) else f"{scheme}://{join_address(host, port)}"
        budget = BodyBudget(options.max_bodies)
        grpc_server = self._grpc(addresses, budget, access)
        if access.tracer is not None:
            access.tracer.listens(self.address, "" if grpc_server is None else grpc_server.address)
        self._frontend = frontend = HttpFrontend(
            self._stock, self._group, options, budget, access.middleware
        )
        self._http = HttpServer(bound, frontend, options.connections, access.tls)
        self._grpc_server = grpc_server
        if self._member is None:
            self._open_grpc(self._http)
        loop_queue = self._http.loop_queue
        loop_queue.post(frontend.start)
        self._stock.begin(loop_queue, partial(self._settled.put, None))
        if self._member is not None:
            self._http.last = self._member.end
            self._member.begin(loop_queue)
            if self._member.replica_peers is not None:
                self._http.invite(self._member.replica_peers)

    def _bind(self, addresses: contextlib.ExitStack) -> socket.socket | InheritedConnections:
        if self._member is not None:
            return self._member.connections
        address = Address(self.options.host, self.options.http_port)
        bound = addresses.enter_context(bind_socket(address))
        self._own_file(address.host)
        return bound

    def _own_file(self, host: str) -> None:
        if is_unix(host):
            self._socket_files.append(SocketFile(host))

    def open_grpc(self) -> None:
        """Begins to answer gRPC.

        `listen` calls this method, unless this process is one of several.

        Raises:
            Cancelled: The server was stopped.
            OSError: The address is in use.
        """
        with self._ending:  # `invite` would wait forever if `stop` ended the event loop now
            self._check_runs()
            if self._http is not None:  # otherwise `listen` opens gRPC
                self._open_grpc(self._http)

    def _open_grpc(self, http: HttpServer) -> None:
        if self._grpc_server is not None:
            http.invite(self._grpc_server)
            self.grpc_address = self._grpc_server.address

    def wait_until_loaded(self) -> None:
        """Waits until every load was tried. Call this method after `listen`.

        Raises:
            Cancelled: The server was stopped before.
            FlowFailed, GraphError, EngineError: No model can be loaded.
        """
        self._settled.get()
        self._settled.put(None)  # wakes the next waiting thread
        self._check_runs()
        self._stock.check()

    def _check_runs(self) -> None:
        if self.is_stopped:
            raise Cancelled(
                "the server was stopped before all models were loaded; to serve again, make another"
            )

    def _grpc(
        self, addresses: contextlib.ExitStack, budget: BodyBudget, access: AccessControl
    ) -> GrpcServer | None:
        options = self.options
        if options.grpc_port is None:
            return None
        make = server_of(options.grpc_server)
        bound = None if self._member is None else self._member.grpc
        if bound is None:
            bound = addresses.enter_context(grpc_socket(options.grpc_host, options.grpc_port))
            self._own_file(options.grpc_host)
        services = (
            *TensorflowGrpc(self._stock.models, self._group).services,
            *OpenInferenceGrpc(self._stock, self._group).services,
        )
        health = Health([service.name for service in services], lambda: not self.unready())
        self._stock.models.on_change = health.look
        self._health = health
        return make(bound, services, options, budget, health, access.middleware)

    @property
    def models(self) -> tuple[str, ...]:
        """Returns the names of the models that answer requests."""
        return tuple(dict.fromkeys(model.name for model in self._stock.models))

    def model(self, name: str) -> Model:
        """Returns the newest served version of a model.

        Raises:
            Problem: No model is served under this name.
        """
        return self._stock.models.find(name)

    def unready(self) -> str:
        """Returns the models that are not loaded, with the reasons, or ``""`` if all are loaded."""
        return self._stock.unready()

    def refresh(self) -> None:
        """Starts a search for new versions and models, and returns at once.

        The server also reads the API keys again and reopens the access log. A signal handler may
        call this method.
        """
        http, access = self._http, self._access
        if http is not None and access is not None:
            http.loop_queue.post(self._stock.refresh)
            http.loop_queue.post(partial(access.refresh, self._loader))

    def post(self, call: "Callable[[], None]") -> None:
        """Calls ``call`` on the server's thread. Use this method after `listen`."""
        assert self._http is not None  # `listen` sets it
        self._http.loop_queue.post(call)

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has killed other processes."""
        self.post(partial(self._stock.condemn, name, version, reason))

    def leave(self) -> None:
        """Reports "not ready" from now on and stops loading, but keeps answering requests.

        A load balancer sees "not ready" and sends no more requests before the server stops.
        """
        self._loader.interrupt()
        if self._http is not None:
            self._http.loop_queue.post(self._on_leave)

    def _on_leave(self) -> None:
        self._stock.end()
        if self._health is not None:
            self._health.look()

    def stop(self, drain: bool = True) -> None:
        """Stops the server and every flow. May be called again, from any thread.

        A signal handler may call this method. If the handler has interrupted `start` or `stop`, the
        call returns at once. The interrupted `start` or `stop` then ends the server.

        Args:
            drain: Answers the running requests first, within ``drain_timeout`` seconds. Requests
                that arrive in the ``drain_delay`` before that are answered as well. With False, a
                `stop` in another thread that waits for running requests stops waiting.

        Raises:
            FlowFailed: Flows failed. All flows are stopped nevertheless.
        """
        if not drain:
            self._is_hurried = True
            self._hurry.put(None)
            if self.is_stopped and self._http is not None:  # another thread's `stop` drains
                self._http.end_within(0.0)
        with self._ending:
            self.is_stopped = True
            if not self._is_busy:
                with self._busy():
                    self._end()

    def _end(self) -> None:
        self.leave()
        until = 0.0
        if self._http is not None:
            if not self._is_hurried and self.options.drain_delay:
                with contextlib.suppress(queue.Empty):
                    self._hurry.get(timeout=self.options.drain_delay)
            if self._frontend is not None:
                self._http.loop_queue.post(self._frontend.end)
            until = time.monotonic() + self.options.drain_timeout
            self._http.close(0.0 if self._is_hurried else self.options.drain_timeout)
        for file in self._socket_files:
            file.remove()
        if self._access is not None:
            self._access.close()
        self._settled.put(None)
        try:
            left = 0.0 if self._is_hurried else max(0.0, until - time.monotonic())
            self._loader.stop(left)
        finally:
            if self._access is not None:
                self._access.end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
