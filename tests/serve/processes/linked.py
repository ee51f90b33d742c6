"""A worker and the process with the models, both in this process, over a real link."""

import socket
from dataclasses import replace
from functools import partial

from modelflow.http.options import Endpoint
from modelflow.http.server import bind_socket
from modelflow.ipc.fd_channel import FdChannel, give
from modelflow.ipc.link import new_link
from modelflow.serve.activity import ActivityTable
from modelflow.serve.grpc.address import grpc_socket
from modelflow.serve.processes.member.worker import PublishedModels
from modelflow.serve.processes.rpc.model_directory import ModelDirectory
from modelflow.serve.processes.rpc.remote_models import RemoteModelSource
from modelflow.serve.processes.rpc.request_server import RequestServer
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.problem import Problem


class Inside:
    """The side of the server that has the models."""

    grpc = None
    unloaded = ()
    tunings: dict[str, object] = {}  # noqa: RUF012 - nobody writes
    is_part = False
    replica_peers = None
    shared_counts = None

    def extend(self, own, _):
        return own

    def __init__(self):
        self.connections = bind_socket(Endpoint("127.0.0.1", 0))
        self.given, taken = socket.socketpair()
        self.fd_channel = FdChannel(taken)
        self.counters = set()
        self.activity = ActivityTable()

    def join(self, own):
        self.directory = ModelDirectory(own.models)
        self.replica_group = PublishedModels(own.replica_group, self.directory)
        return self.replica_group

    def stock(self, _):
        return None

    def begin(self, loop_queue):
        self.loop_queue = loop_queue
        self.directory.begin(loop_queue)
        loop_queue.post(partial(self.fd_channel.open, self._welcome))

    def _welcome(self, ends, _):
        self.counters.add(
            RequestServer(ends, self.loop_queue, self.directory, self.counters.discard)
        )

    async def end(self):
        self.fd_channel.close()
        for counter in tuple(self.counters):
            await counter.close()

    def close(self):
        for one in (self.connections, self.given, self.fd_channel):
            one.close()


class Outside:
    """The worker's side, which asks the inner server about anything that concerns all processes."""

    unloaded = ()
    shared_counts = None
    replica_peers = None
    tunings: dict[str, object] = {}  # noqa: RUF012 - nobody writes

    def __init__(self, inside, options):
        self._inside = inside
        self.connections = bind_socket(Endpoint(options.host, options.http_port))
        port = options.grpc_port
        self.grpc = None if port is None else grpc_socket(options.grpc_host, port)
        self.given, taken = socket.socketpair()
        self.fd_channel = FdChannel(taken)

    def stock(self, options):
        self._stock = RemoteModelSource(options, self.fd_channel, {})
        return self._stock

    def join(self, _):
        return self

    def begin(self, loop_queue):
        self._loop_queue = loop_queue

    async def end(self):
        await self._stock.close()

    def counts(self, told):
        self._ask("counts", told)

    def load(self, name, told, *tuning):
        self._ask("load", told, name, more=tuning)

    def unload(self, name, told):
        self._ask("unload", told, name)

    def share(self, change, told):
        self._stock.models.regions.change(change)
        told(None)

    def configure(self, config, told):
        self._ask("configure", told, config)

    def _ask(self, what, told, *rest, more=()):
        def answered(found):
            self._loop_queue.post(partial(told, found))

        def ask():
            try:
                getattr(self._inside.replica_group, what)(*rest, answered, *more)
            except Problem as error:
                answered(error)

        self._inside.loop_queue.post(ask)

    def close(self):
        for one in (self.connections, self.given, self.fd_channel, self.grpc):
            if one is not None:
                one.close()


class Linked:
    """A stand-in for a `Server`; the server that clients reach has no models."""

    def __init__(self, sources, options=None):
        self.options = options or ServeOptions()
        alone = replace(
            self.options,
            grpc_port=None,
            tls=None,
            key_file=None,
            access_log=None,
            payload_log=None,
            cors_origins=(),
        )
        self.inside, self.outside = Inside(), None
        try:
            self._core = Server(sources, alone, self.inside)
        except BaseException:
            self.inside.close()
            raise
        self._worker = None

    def start(self):
        try:
            self._core.start()
            self.inside.loop_queue.post(self.inside.directory.settle)
            self.outside = Outside(self.inside, self.options)
            self._worker = Server({}, self.options, self.outside)
            for member, ends in zip((self.inside, self.outside), new_link(), strict=True):
                give(member.given, ends, 0)
            self._worker.start()
            self._worker.open_grpc()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, drain=True):
        try:
            if self._worker is not None:
                self._worker.stop(drain)
        finally:
            self._core.stop(drain)
            for member in (self.outside, self.inside):
                if member is not None:
                    member.close()

    @property
    def _stock(self):
        return self._worker._stock

    @property
    def is_stopped(self):
        return self._worker.is_stopped

    @property
    def address(self):
        return self._worker.address

    @property
    def grpc_address(self):
        return self._worker.grpc_address

    @property
    def models(self):
        return self._worker.models

    def unready(self):
        return self._worker.unready()

    def model(self, name):
        return self._core.model(name)

    def refresh(self):
        self._core.refresh()
        self._worker.refresh()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
