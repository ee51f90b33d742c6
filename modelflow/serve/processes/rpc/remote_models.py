"""The models of another process, among those that this one serves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modelflow.ipc.fd_channel import FdChannel
from modelflow.ipc.frame import Value
from modelflow.ipc.link import Link
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.interfaces import GroupCounts, ModelSource, ReplicaGroup, Told
from modelflow.serve.options import ServeOptions
from modelflow.serve.processes.rpc.remote_model import RemoteModel
from modelflow.serve.processes.rpc.rpc_client import RpcClient
from modelflow.serve.repository.models import Models


class RemoteModels:
    """Shows what another process says that it has. For the server's thread.

    Attributes:
        is_there: That process has said what it has.
    """

    def __init__(
        self, models: Models, options: ServeOptions, peer: int, settled: Callable[[], object]
    ) -> None:
        """Has no link yet; see `connect`.

        Args:
            models: Where the models are shown.
            options: What each takes.
            peer: Which process it is; what is shown is known by it.
            settled: Called when the process has tried everything that was asked for.
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
        """Takes up a link to the process, or to the one that has taken its place."""
        if self._link is not None:  # that it has ended is still to be heard
            self._link.abandon()
            self.on_lost(self._link)
        self._link = Link(ends, loop_queue, self)
        self._link.begin()

    async def close(self) -> None:
        """Ends the link, when all requests have come to their end."""
        if self._link is not None:
            await self._link.close()

    def hear(self, link: Link, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Takes what the other process says."""
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
        """Takes note that the other process has ended; another's link may be there already."""
        if link is not self._link:
            return
        self._link, self._known, self.is_there = None, {}, False
        self._models.lose(self._peer)
        self._rpc_client.lose()


class NoPeers:
    """What a worker does itself of what concerns all: nothing. A `ReplicaGroup`."""

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Has counted nothing."""
        told(GroupCounts([]))

    def load(self, _name: str, told: Told) -> None:
        """Loads nothing."""
        told(None)

    unload = load

    def configure(self, _config: bytes, told: Told) -> None:
        """Serves what it is told to."""
        told(None)


class RemoteModelSource:
    """A `ModelSource` of models that run elsewhere. For the server's thread.

    Attributes:
        models: What requests see.
        replica_group: What can be changed here.
        is_open: Clients may load and unload models.
    """

    def __init__(
        self,
        options: ServeOptions,
        fd_channel: FdChannel,
        isolated: Mapping[int, str],
        own: ModelSource | None = None,
    ) -> None:
        """Takes where the models are.

        Args:
            options: The server's.
            fd_channel: Where links are given to it, which becomes its own.
            isolated: The models that have a process of their own, by its number, from 1.
            own: The other models, which run here; None: one process, with the number 0, has them.
        """
        self._own = own
        self._fd_channel = fd_channel
        self._isolated = dict(isolated)
        self.models = Models() if own is None else own.models
        self.replica_group: ReplicaGroup = NoPeers() if own is None else own.replica_group
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
        """Returns why the server is not ready; ``""``: it is. From any thread."""
        if self._is_ending:
            return "the server is being stopped"
        if self._own is not None:
            return self._own.unready()
        if not self._remote_models[0].is_there:
            return "the process that runs the models has not begun; come again"
        found = self.models.unready().items()
        return "; ".join(f"model {name!r}: {reason}" for name, reason in found)

    def look(self) -> Sequence[str]:
        """Looks for what runs here; other processes look for theirs."""
        return () if self._own is None else self._own.look()

    def begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        """Takes links from now on; ``told`` is called when all that is not isolated was tried."""
        self._loop_queue, self._told = loop_queue, told
        loop_queue.post(self._begin)
        if self._own is not None:
            self._own.begin(loop_queue, told)

    def _begin(self) -> None:
        self._fd_channel.open(self._connect)

    def _connect(self, ends: ChannelDescriptors, peer: int) -> None:
        self._remote_models[peer].connect(ends, self._loop_queue)

    def _tell_settled(self) -> None:
        self._told()

    def check(self) -> None:
        """Looks at what runs here; where nothing does, the other process would not have begun."""
        if self._own is not None:
            self._own.check()

    def refresh(self) -> None:
        """Looks for what runs here; other processes look for theirs."""
        if self._own is not None:
            self._own.refresh()

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that runs here."""
        if self._own is not None:
            self._own.condemn(name, version, reason)

    def end(self) -> None:
        """Is ready no more. What was asked is still answered."""
        self._is_ending = True
        if self._own is not None:
            self._own.end()

    async def close(self) -> None:
        """Ends the links, when all requests have come to their end."""
        self._fd_channel.close()
        for remote_models in self._remote_models.values():
            await remote_models.close()


def _nothing() -> None:
    """Nobody waits for what an isolated model comes to."""
