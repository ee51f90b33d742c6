"""The models of another process, as part of the models that this process serves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modelflow.ipc.fd_channel import FdChannel
from modelflow.ipc.frame import Value
from modelflow.ipc.link import Link
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.interfaces import GroupCounts, ModelSource, ReplicaGroup, Told
from modelflow.serve.options import UNTUNED, ServeOptions, Tuning
from modelflow.serve.processes.rpc.remote_model import RemoteModel
from modelflow.serve.processes.rpc.rpc_client import RpcClient
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.state.shared_memory import regions_of


class RemoteModels:
    """The models that another process has published. For the server's thread.

    Attributes:
        is_there: The other process has published its models.
    """

    def __init__(
        self, models: Models, options: ServeOptions, peer: int, settled: Callable[[], object]
    ) -> None:
        """Stores the settings. `connect` adds the link.

        Args:
            models: The table that gets the models.
            options: The limits on requests.
            peer: The number of the process, which marks its entries in the table.
            settled: Called when every model of the process has loaded or failed.
        """
        self._models = models
        self._options = options
        self._peer = peer
        self._settled = settled
        self._rpc_client = RpcClient()
        self._known: dict[int, RemoteModel] = {}
        self._link: Link | None = None
        self.is_there = False

    def connect(self, ends: ChannelDescriptors, loop_queue: LoopQueue) -> None:
        """Uses a new link to the process, or to its replacement."""
        if self._link is not None:  # the end of the old link is not reported yet
            self._link.abandon()
            self.on_lost(self._link)
        self._link = Link(ends, loop_queue, self)
        self._link.begin()

    async def close(self) -> None:
        """Closes the link after all requests have ended."""
        if self._link is not None:
            await self._link.close()

    def hear(self, link: Link, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Handles a message of the other process."""
        if link is not self._link:
            return
        if message[0] != "models":
            self._rpc_client.hear(message, read)
            return
        _, number, document = message
        self._rpc_client.connect(link)
        self.is_there = True
        self._take(document)
        link.say("seen", number)
        if document["is_settled"]:
            self._settled()

    def _take(self, document: Any) -> None:
        known: dict[int, RemoteModel] = {}
        for one in document["models"]:
            key = one["key"]
            model = self._known.get(key)
            known[key] = model or RemoteModel(one, self._options, self._rpc_client)
        self._known = known
        self._models.take(document["entries"], known.__getitem__, self._peer)

    def on_lost(self, link: Link) -> None:
        """Removes the models of an ended process. Ignores a link that is already replaced."""
        if link is not self._link:
            return
        self._link, self._known, self.is_there = None, {}, False
        self._models.lose(self._peer)
        self._rpc_client.lose()


class NoPeers:
    """The `ReplicaGroup` of a worker without models, which has only shared memory itself."""

    def __init__(self, models: Models) -> None:
        """Stores the table with the shared memory."""
        self._models = models

    def share(self, change: Mapping[str, Any], told: Told) -> None:
        """Registers or removes shared memory; see `SharedRegions.change`."""
        self._models.regions.change(change)
        told(None)

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Returns no counts."""
        told(GroupCounts([]))

    def load(self, _name: str, told: Told, _tuning: Tuning = UNTUNED) -> None:
        """Succeeds without loading a model."""
        told(None)

    unload = load

    def configure(self, _config: bytes, told: Told) -> None:
        """Succeeds without changing the models."""
        told(None)


def _ignore_peer(_ends: ChannelDescriptors, _peer: int) -> None:
    """Does nothing, because a process without models has no peers."""


class RemoteModelSource:
    """A `ModelSource` of models that run in other processes. For the server's thread.

    Attributes:
        models: The models that requests find.
        replica_group: The group that loads and unloads models.
        is_open: Clients may load and unload models.
    """

    def __init__(
        self,
        options: ServeOptions,
        fd_channel: FdChannel,
        isolated: Mapping[int, str],
        own: ModelSource | None = None,
        on_peer: Callable[[ChannelDescriptors, int], object] = _ignore_peer,
    ) -> None:
        """Stores the processes that have the models.

        Args:
            options: The options of the server.
            fd_channel: The channel on which links arrive. The source owns it.
            isolated: The models that have their own processes, by process number, from 1.
            own: The other models, which run in this process. None if process 0 has them.
            on_peer: Takes each link to another replica, with its negative number.
        """
        self._on_peer = on_peer
        self._own = own
        self._fd_channel = fd_channel
        self._isolated = dict(isolated)
        self.models = Models(regions_of(options)) if own is None else own.models
        self.replica_group: ReplicaGroup = (
            NoPeers(self.models) if own is None else own.replica_group
        )
        self.is_open = options.is_repository_open
        self._remote_models = {
            peer: RemoteModels(self.models, options, peer, _nothing) for peer in self._isolated
        }
        if own is None:
            self._remote_models[0] = RemoteModels(self.models, options, 0, self._tell_settled)
        for peer, name in self._isolated.items():
            self.models.expect(name, is_due=True, peer=peer)
        self._is_ending = False

    def unready(self) -> str:
        """Returns the reason why the server is not ready, or ``""``. From any thread."""
        if self._is_ending:
            return "the server is being stopped"
        if self._own is not None:
            return self._own.unready()
        if not self._remote_models[0].is_there:
            return "the process that runs the models has not begun; try again"
        found = self.models.unready().items()
        return "; ".join(f"model {name!r}: {reason}" for name, reason in found)

    def look(self) -> Sequence[str]:
        """Scans the disk for the models of this process. Other processes scan for theirs."""
        return () if self._own is None else self._own.look()

    def begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        """Starts to take links.

        Calls ``told`` when all models that are not isolated have loaded or failed.
        """
        self._loop_queue, self._told = loop_queue, told
        loop_queue.post(self._begin)
        if self._own is not None:
            self._own.begin(loop_queue, told)

    def _begin(self) -> None:
        self._fd_channel.open(self._connect)

    def _connect(self, ends: ChannelDescriptors, peer: int) -> None:
        if peer < 0:
            self._on_peer(ends, peer)
        else:
            self._remote_models[peer].connect(ends, self._loop_queue)

    def _tell_settled(self) -> None:
        self._told()

    def check(self) -> None:
        """Checks the models of this process.

        Other processes check their models before they start.
        """
        if self._own is not None:
            self._own.check()

    def refresh(self) -> None:
        """Scans the disk for the models of this process. Other processes scan for theirs."""
        if self._own is not None:
            self._own.refresh()

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version of this process out of service."""
        if self._own is not None:
            self._own.condemn(name, version, reason)

    def end(self) -> None:
        """Marks the server as not ready. Requests under way are still answered."""
        self._is_ending = True
        self.models.shadows.end()
        if self._own is not None:
            self._own.end()

    async def close(self) -> None:
        """Closes the links after all requests have ended."""
        self._fd_channel.close()
        for remote_models in self._remote_models.values():
            await remote_models.close()


def _nothing() -> None:
    """Does nothing, because the server does not wait for isolated models."""
