"""`Server`: flows, and the listeners that clients reach them by."""

import contextlib
import logging
import queue
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from modelflow.errors import Cancelled, StreamClosed
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
    """Serves models to the clients of TensorFlow Serving and of Open Inference.

    One process; ``modelflow serve --replicas N`` and ``--workers N`` keep several, each with one.
    For programs::

        with modelflow.serve.Server({"digits": "graphs/digits.toml"}) as server:
            print(server.address)
    """

    def __init__(
        self,
        sources: "Mapping[str, str | Path | Flow] | ServeConfig",
        options: ServeOptions | None = None,
        member: "ReplicaMember | None" = None,
    ) -> None:
        """Takes what to serve; loads nothing yet.

        Args:
            sources: By the model's name a graph file, a model, a folder with versions, or a `Flow`
                that does not run yet; or a `ServeConfig`.
            options: Where to listen, and what to take.
            member: What it is given where it is one of several; None: it is alone.

        Raises:
            ConfigError: there is nothing to serve.
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
        self._ending = threading.RLock()  # a handler of signals may stop what stops, or starts
        self._settled: queue.SimpleQueue[None] = queue.SimpleQueue()  # handlers may put, as well
        self._hurry: queue.SimpleQueue[None] = queue.SimpleQueue()  # the same
        self._health: Health | None = None
        self._is_busy = False  # something holds `_ending`, and looks at `is_stopped` when done
        self._is_hurried = False
        self.is_stopped = False
        """It has ended, or is about to."""
        self.address = ""
        """Where it answers, once it listens: ``http://127.0.0.1:8501``, with TLS ``https://``."""
        self.grpc_address = ""
        """Where it answers gRPC, once it listens and is asked to: ``127.0.0.1:8500``."""

    def _stock_of(self, sources: "Mapping[str, str | Path | Flow] | ServeConfig") -> ModelSource:
        member = self._member
        if member is not None and (stock := member.stock(self.options)) is not None:
            return stock
        from modelflow.serve.repository.repository import Repository  # which runs models

        if member is None:
            return Repository(sources, self.options, self._loader)
        own = Repository(
            sources,
            self.options,
            self._loader,
            member.unloaded,
            member.activity,
            may_be_empty=member.is_part,
        )
        return member.extend(own, self.options)

    def start(self) -> Self:
        """Begins to answer, and returns when everything was loaded that can be.

        What does not load is in the log, and in what clients are told of it; the others are served.

        Raises:
            OSError, MissingDependencyError, ConfigError: as `listen`.
            FlowFailed, GraphError, EngineError: nothing can be loaded; nothing runs then.
        """
        try:
            self.listen()
            self.wait_until_loaded()
        except _ListensAlreadyError:  # and goes on
            raise
        except BaseException:
            self.stop(drain=False)
            raise
        return self

    def listen(self) -> None:
        """Begins to answer, and to load: until a model is there, requests for it are answered 503.

        Raises:
            Cancelled: the server was stopped.
            StreamClosed: it listens already.
            OSError: an address is in use.
            MissingDependencyError: gRPC or tracing is wanted, and not installed.
            ConfigError: nothing is at a path; certificate, key or API keys are not to be used.
        """
        found = self._stock.look()
        with contextlib.ExitStack() as addresses, self._ending:  # the servers have their own
            self._check_runs()
            if self._http is not None:
                raise _ListensAlreadyError(f"the server listens already, at {self.address}")
            with self._busy():
                self._access = AccessControl(self.options)  # before anything listens
                self._listen(addresses, self._access)
            if self.is_stopped:  # by a handler of signals, meanwhile
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
        host, port = (
            bound.address if isinstance(bound, InheritedConnections) else bound.getsockname()[:2]
        )
        scheme = "http" if access.tls is None else "https"
        self.address = f"{scheme}://{join_address(host, port)}"
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
        self._stock.begin(loop_queue, partial(self._settled.put, None))
        if self._member is not None:
            self._http.last = self._member.end
            self._member.begin(loop_queue)

    def _bind(self, addresses: contextlib.ExitStack) -> socket.socket | InheritedConnections:
        if self._member is not None:
            return self._member.connections
        address = Address(self.options.host, self.options.http_port)
        return addresses.enter_context(bind_socket(address))

    def open_grpc(self) -> None:
        """Begins to answer gRPC; `listen` does, unless it is one of several.

        Raises:
            Cancelled: the server was stopped.
            OSError: somebody else listens there.
        """
        with self._ending:  # a loop that ends in the midst of it would never answer
            self._check_runs()
            if self._http is not None:  # else `listen` will
                self._open_grpc(self._http)

    def _open_grpc(self, http: HttpServer) -> None:
        if self._grpc_server is not None:
            http.invite(self._grpc_server)
            self.grpc_address = self._grpc_server.address

    def wait_until_loaded(self) -> None:
        """Returns when everything was loaded that can be; behind `listen`.

        Raises:
            Cancelled: the server was stopped before.
            FlowFailed, GraphError, EngineError: nothing can be loaded.
        """
        self._settled.get()
        self._settled.put(None)  # for whoever else waits
        self._check_runs()
        self._stock.check()

    def _check_runs(self) -> None:
        if self.is_stopped:
            raise Cancelled(
                "the server was stopped before all was loaded; to serve again, make another"
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
        """The names of what answers."""
        return tuple(dict.fromkeys(model.name for model in self._stock.models))

    def model(self, name: str) -> Model:
        """Returns what is served under a name, in its newest version, while it is.

        Raises:
            Problem: there is none.
        """
        return self._stock.models.find(name)

    def unready(self) -> str:
        """Returns what was asked for and is not loaded, and why; ``""``: all is."""
        return self._stock.unready()

    def refresh(self) -> None:
        """Has it look for new versions and models; returns at once, in a signal handler too.

        It also reads the API keys again, and opens the access log anew.
        """
        http, access = self._http, self._access
        if http is not None and access is not None:
            http.loop_queue.post(self._stock.refresh)
            http.loop_queue.post(partial(access.refresh, self._loader))

    def post(self, call: "Callable[[], None]") -> None:
        """Has ``call`` called on the server's thread, by its event loop; behind `listen`."""
        assert self._http is not None  # it listens
        self._http.loop_queue.post(call)

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""
        self.post(partial(self._stock.condemn, name, version, reason))

    def leave(self) -> None:
        """Says from now on that it is not ready, and loads nothing more; goes on answering.

        So that those who ask whether it is ready send nothing any more when it is stopped.
        """
        self._loader.interrupt()
        if self._http is not None:
            self._http.loop_queue.post(self._on_leave)

    def _on_leave(self) -> None:
        self._stock.end()
        if self._health is not None:
            self._health.look()

    def stop(self, drain: bool = True) -> None:
        """Ends it: no new requests, every flow is stopped. May be called again, from any thread.

        A handler of signals may call it. Where it has interrupted `start` or `stop` it returns at
        once: what it has interrupted ends the server.

        Args:
            drain: Requests under way are answered first, within ``drain_timeout`` seconds, and all
                that come within the ``drain_delay`` before. Without it another `stop` that waits
                for them waits no longer.

        Raises:
            FlowFailed: flows failed; all have been stopped.
        """
        if not drain:
            self._is_hurried = True
            self._hurry.put(None)
            if self.is_stopped and self._http is not None:  # it is, or soon will be, ending
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
