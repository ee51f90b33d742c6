"""The member for a replica process: the state of a process in its group."""

import base64
import contextlib
import faulthandler
import mmap
import os
import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from modelflow.errors import FlowFailed
from modelflow.http.accept import InheritedConnections
from modelflow.ipc.fd_channel import FdChannel
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.access.shared_counts import SharedCounts
from modelflow.serve.activity import MOST, ActivityTable
from modelflow.serve.interfaces import ModelSource, ReplicaGroup
from modelflow.serve.options import ServeOptions, Tuning
from modelflow.serve.processes.control_channel import ControlChannel, Message
from modelflow.serve.processes.member.peers import Peers
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.rpc.replica_peers import ReplicaPeers
from modelflow.serve.server import Server
from modelflow.signals import ExitCode
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.serve.repository.source import ModelConfig


# Seconds for a replica without a supervisor to end in order.
_LAST_SECONDS = 5.0


class ReplicaMember:
    """The member of a replica process in a group of server processes.

    The process ends with its supervisor. It ends in order if the supervisor asks for that.
    Otherwise the system kills it (`modelflow.cli.serve.replica`).

    Attributes:
        connections: The channel on which connections are handed over.
        fd_channel: The channel on which links to other processes arrive.
        grpc: A socket with the address for gRPC. None without gRPC.
        unloaded: The models that clients have unloaded before this process started.
        tunings: The settings of clients, by model, from before this process started.
        activity: The activity records of versions.
        shared_counts: The counters that all processes share.
        isolated: The models that have their own processes, by process number.
        only: The only models of this process. None if it has all models.
        without: The models that this process does not have.
        replica_peers: The other replicas, or None if there are none.
        is_part: Some models are isolated, and this process has a single isolated model or none.
    """

    def __init__(self, channel: ControlChannel, start: Message) -> None:
        """Reads the first message of the supervisor.

        Args:
            channel: The connection to the supervisor. The member owns it.
            start: The first message.
        """
        _, connections, fd_channel, activity, fault, counts, *grpc = start["descriptors"]
        self.connections = InheritedConnections(_own(connections), tuple(start["address"]))
        self.fd_channel = FdChannel(_own(fd_channel))
        self.grpc = _own(grpc[0]) if grpc else None
        os.set_inheritable(counts, False)
        self.shared_counts = SharedCounts(counts)
        self.activity = ActivityTable(
            mmap.mmap(activity, MOST),
            channel.say,
            {(name, version): reason for name, version, reason in start["condemned"]},
            [(name, version) for name, version in start["suspects"]],
        )
        os.close(activity)
        os.set_inheritable(fault, False)
        faulthandler.enable(fault)  # the supervisor reads this file
        self.isolated = {int(number): name for number, name in start["isolated"].items()}
        self.is_part = bool(self.isolated)
        names = tuple(self.isolated.values())
        is_isolated = start["role"] == Role.ISOLATED
        self.only = (self.isolated[start["number"]],) if is_isolated else None
        self.without = () if is_isolated else names
        self.unloaded: Collection[str] = frozenset(start["changes"]["unloaded"])
        self.tunings: Mapping[str, Tuning] = start["changes"]["tunings"]
        self._regions: Sequence[Message] = start["changes"]["regions"]
        self.replica_peers: ReplicaPeers | None = None
        if start["role"] == Role.REPLICA and start["count"] > 1:
            self.replica_peers = ReplicaPeers(
                start["number"], start["count"], partial(channel.say, {"takes_sequences": True})
            )
        self._configured: str | None = start["changes"]["configured"]
        self._channel = channel
        self._peers: Peers | None = None
        self._server: Server | None = None

    @property
    def configured(self) -> "Sequence[ModelConfig] | None":
        """The models that clients have set in place of the ``models.config``, or None."""
        found = self._configured
        if found is None:
            return None
        # Imported here, because only processes with models need it.
        from modelflow.serve.repository.config import read_reload_request

        return read_reload_request(base64.b64decode(found))

    def stock(self, _options: ServeOptions) -> ModelSource | None:
        """Returns None, because this process has its own models."""
        return None

    def extend(self, own: ModelSource, _options: ServeOptions) -> ModelSource:
        """Returns the models of this process."""
        return own

    def join(self, own: ModelSource) -> ReplicaGroup:
        """Returns the group that changes the models of all replicas."""
        if self.replica_peers is not None:
            self.replica_peers.watch(own.models)
        for region in self._regions:
            with contextlib.suppress(Problem):  # its client has removed the memory
                own.models.regions.change({"register": region})
        return self._join_group(own.replica_group)

    def _join_group(self, own: ReplicaGroup) -> ReplicaGroup:
        self._peers = Peers(self._channel, own)
        return self._peers

    def begin(self, loop_queue: LoopQueue) -> None:
        """Starts to take requests of the supervisor, and to watch for its end."""
        assert self._peers is not None  # `join` was called
        self._loop_queue = loop_queue
        self._peers.begin(loop_queue)
        self._open_links(loop_queue)
        self._channel.begin(self._hear, self._on_abandoned)

    def _open_links(self, loop_queue: LoopQueue) -> None:
        """Starts to take links to other replicas."""
        if self.replica_peers is not None:
            loop_queue.post(partial(self.fd_channel.open, self.connect_peer))

    def connect_peer(self, ends: ChannelDescriptors, peer: int) -> None:
        """Takes a link to another replica, whose number is negative."""
        assert self.replica_peers is not None  # the supervisor links replicas only
        self.replica_peers.connect(-peer, ends, self._loop_queue)

    def serve(self, server: Server, ended: threading.Event, ready: Callable[[], object]) -> None:
        """Serves until ``ended`` is set.

        Args:
            server: The server of this member.
            ended: Set by the code that stops the server, also by this member when the supervisor
                has ended.
            ready: Called when the server can answer.

        Raises:
            Exception: an error of `Server.start`.
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
        """Called when every model has loaded or failed."""

    def fail(self, text: str, code: int) -> None:
        """Reports a failed start to the supervisor.

        Args:
            text: The message that a single process would print.
            code: The exit code.
        """
        self._channel.say({"failure": {"text": text, "code": code}})

    async def end(self) -> None:
        """Stops taking links to other processes, and closes the links to replicas."""
        self.fd_channel.close()
        if self.replica_peers is not None:
            await self.replica_peers.close_links()

    def close(self) -> None:
        """Closes all channels, after the server has stopped."""
        self._channel.close()
        self.fd_channel.close()
        if self.grpc is not None:
            self.grpc.close()
        self.shared_counts.close()

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
        """Stops the server at once, because the supervisor has ended."""
        if self._server is None or self._server.is_stopped:
            return
        stopping = threading.Thread(target=self._stop, name="modelflow/abandoned", daemon=True)
        stopping.start()
        stopping.join(_LAST_SECONDS)
        if stopping.is_alive():  # A unit hangs, and no supervisor is left to kill this process.
            os._exit(ExitCode.FAILED)

    def _stop(self) -> None:
        assert self._server is not None
        try:
            # `FlowFailed` is raised again when the main thread stops the server.
            with contextlib.suppress(FlowFailed):
                self._server.stop(drain=False)
        finally:
            self._ended.set()


def _own(descriptor: int) -> socket.socket:
    """Returns the socket of an inherited descriptor, which child processes do not inherit."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)
