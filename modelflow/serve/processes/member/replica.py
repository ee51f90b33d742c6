"""One of several processes that serve together, seen from inside."""

import base64
import contextlib
import faulthandler
import mmap
import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from modelflow.errors import FlowFailed
from modelflow.http.accept import InheritedConnections
from modelflow.ipc.fd_channel import FdChannel
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.activity import MOST, ActivityTable
from modelflow.serve.interfaces import ModelSource, ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.processes.control_channel import ControlChannel, Message
from modelflow.serve.processes.member.peers import Peers
from modelflow.serve.processes.role import Role
from modelflow.serve.server import Server
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from modelflow.serve.repository.source import ModelConfig


# How long a replica without a supervisor takes to end in order.
_LAST_SECONDS = 5.0


class ReplicaMember:
    """The place of this process among those that serve together.

    It ends with its supervisor, however that ends: in order where that asks for it, else the system
    kills it (`modelflow.cli.serve.replica`).

    Attributes:
        connections: Where connections are handed over.
        fd_channel: Where links to other processes are given.
        grpc: A socket with the address for gRPC; None: no gRPC.
        unloaded: The models that clients have unloaded before it came.
        activity: Where it is noted what is done for each version.
        isolated: The models that have processes of their own, by the numbers of these.
        only: The models that it has alone; None: all.
        without: Those that it has not.
        is_part: Some models are isolated: it has one of them alone, or none of them.
    """

    def __init__(self, channel: ControlChannel, start: Message) -> None:
        """Takes its place.

        Args:
            channel: What reaches the supervisor; it becomes its own.
            start: The first message.
        """
        _, connections, fd_channel, activity, fault, *grpc = start["descriptors"]
        self.connections = InheritedConnections(_own(connections), tuple(start["address"]))
        self.fd_channel = FdChannel(_own(fd_channel))
        self.grpc = _own(grpc[0]) if grpc else None
        self.activity = ActivityTable(
            mmap.mmap(activity, MOST),
            channel.say,
            {(name, version): reason for name, version, reason in start["condemned"]},
            [(name, version) for name, version in start["suspects"]],
        )
        os.close(activity)
        os.set_inheritable(fault, False)
        faulthandler.enable(fault)  # which the supervisor reads
        self.isolated = {int(number): name for number, name in start["isolated"].items()}
        self.is_part = bool(self.isolated)
        names = tuple(self.isolated.values())
        is_isolated = start["role"] == Role.ISOLATED
        self.only = (self.isolated[start["number"]],) if is_isolated else None
        self.without = () if is_isolated else names
        self.unloaded: Collection[str] = frozenset(start["changes"]["unloaded"])
        self._configured: str | None = start["changes"]["configured"]
        self._channel = channel
        self._peers: Peers | None = None
        self._server: Server | None = None

    @property
    def configured(self) -> "Sequence[ModelConfig] | None":
        """What clients have put in the place of the ``models.config``; None: nothing."""
        found = self._configured
        if found is None:
            return None
        from modelflow.serve.repository.config import read_reload_request  # which runs models

        return read_reload_request(base64.b64decode(found))

    def stock(self, _options: ServeOptions) -> ModelSource | None:
        """It has all models itself."""
        return None

    def extend(self, own: ModelSource, _options: ServeOptions) -> ModelSource:
        """Returns its own models: it has no others."""
        return own

    def join(self, own: ModelSource) -> ReplicaGroup:
        """Returns what changes what all serve, of which ``own`` is what this one does."""
        return self._join_group(own.replica_group)

    def _join_group(self, own: ReplicaGroup) -> ReplicaGroup:
        self._peers = Peers(self._channel, own)
        return self._peers

    def begin(self, loop_queue: LoopQueue) -> None:
        """Begins to be asked, and to look whether the supervisor lives."""
        assert self._peers is not None  # whoever begins has joined
        self._peers.begin(loop_queue)
        self._channel.begin(self._hear, self._on_abandoned)

    def serve(self, server: Server, ended: threading.Event, ready: Callable[[], object]) -> None:
        """Serves until ``ended`` is set: somebody has stopped the server.

        Args:
            server: Which was given this place.
            ended: Set by whoever stops it; by this one where the supervisor has ended.
            ready: Called when it can answer.

        Raises:
            Exception: whatever `Server.start` raises.
        """
        self._server, self._ended = server, ended
        server.listen()
        server.wait_until_loaded()
        self.on_settled()
        server.open_grpc()
        said = {"models": server.models, "unready": server.unready(), "grpc": server.grpc_address}
        ready()
        self._channel.say({"ready": {**said, "address": server.address}})
        ended.wait()

    def on_settled(self) -> None:
        """Takes note that everything that was asked for was tried."""

    def fail(self, text: str, code: int) -> None:
        """Says why it cannot begin: what a process that is alone would, and its exit code."""
        self._channel.say({"failure": {"text": text, "code": code}})

    async def end(self) -> None:
        """Takes no more links."""
        self.fd_channel.close()

    def close(self) -> None:
        """Ends it, behind the server."""
        self._channel.close()
        self.fd_channel.close()
        if self.grpc is not None:
            self.grpc.close()

    def _hear(self, message: Message) -> None:
        assert self._server is not None and self._peers is not None  # noqa: PT018
        if message.get("what") == "refresh":
            self._server.refresh()
        elif message.get("what") == "leave":
            self._server.leave()
        elif message.get("what") == "condemn":
            name, version, reason = message["version"]
            self._server.condemn(name, version, reason)
        else:
            self._peers.hear(message)

    def _on_abandoned(self) -> None:
        """Ends at once: nobody hands anything over any more."""
        if self._server is None or self._server.is_stopped:
            return
        stopping = threading.Thread(target=self._stop, name="modelflow/abandoned", daemon=True)
        stopping.start()
        stopping.join(_LAST_SECONDS)
        if stopping.is_alive():  # a unit does not come back, and nobody is left to see to it
            os._exit(ExitCode.FAILED)

    def _stop(self) -> None:
        assert self._server is not None
        try:
            with contextlib.suppress(FlowFailed):  # raised again where the main thread stops it
                self._server.stop(drain=False)
        finally:
            self._ended.set()


def _own(descriptor: int) -> socket.socket:
    """The socket of an inherited descriptor, which processes of ours do not inherit."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)
