"""A worker process and the process with the models, seen from inside."""

from collections.abc import Callable
from functools import partial

from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.interfaces import GroupCounts, ModelSource, ReplicaGroup, Told
from modelflow.serve.options import ServeOptions
from modelflow.serve.processes.control_channel import ControlChannel, Message
from modelflow.serve.processes.member.replica import ReplicaMember
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.rpc.model_directory import ModelDirectory
from modelflow.serve.processes.rpc.remote_models import RemoteModelSource
from modelflow.serve.processes.rpc.request_server import RequestServer


class WorkerMember(ReplicaMember):
    """The place of a process that has no models, or all but those that are isolated."""

    _far: RemoteModelSource

    def __init__(self, channel: ControlChannel, start: Message) -> None:
        """Takes its place; see `ReplicaMember`."""
        super().__init__(channel, start)
        self._has_models = start["role"] == Role.REPLICA

    def stock(self, options: ServeOptions) -> ModelSource | None:
        """Returns the models of the other processes; None: it has some itself."""
        return None if self._has_models else self._join(options, None)

    def extend(self, own: ModelSource, options: ServeOptions) -> ModelSource:
        """Returns its own models, and those of the other processes."""
        return self._join(options, own)

    def _join(self, options: ServeOptions, own: ModelSource | None) -> ModelSource:
        self._far = RemoteModelSource(options, self.fd_channel, self.isolated, own)
        return self._far

    async def end(self) -> None:
        """Ends the links to the other processes."""
        await self._far.close()


class PublishedModels:
    """Changes what is served, and says so when all workers have seen it. A `ReplicaGroup`."""

    def __init__(self, own: ReplicaGroup, directory: ModelDirectory) -> None:
        """Takes what changes it, and who tells workers."""
        self._own = own
        self._directory = directory

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Tells what this process has counted."""
        self._own.counts(told)

    def load(self, name: str, told: Told) -> None:
        """Loads a model."""
        self._own.load(name, self._on_seen(told))

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model."""
        self._own.unload(name, self._on_seen(told))

    def configure(self, config: bytes, told: Told) -> None:
        """Serves what a ``ReloadConfigRequest`` says."""
        self._own.configure(config, self._on_seen(told))

    def _on_seen(self, told: Told) -> Told:
        return lambda error: self._directory.call_when_seen(partial(told, error))


class ModelsMember(ReplicaMember):
    """The place of the process that has all models, and no connections but to workers."""

    _directory: ModelDirectory
    _loop_queue: LoopQueue

    def join(self, own: ModelSource) -> ReplicaGroup:
        """Returns what changes what is served here."""
        self._directory = ModelDirectory(own.models)
        self.request_servers: set[RequestServer] = set()
        return self._join_group(PublishedModels(own.replica_group, self._directory))

    def begin(self, loop_queue: LoopQueue) -> None:
        """Begins to be asked, by the supervisor and by workers."""
        self._loop_queue = loop_queue
        self._directory.begin(loop_queue)
        loop_queue.post(partial(self.fd_channel.open, self._welcome))
        super().begin(loop_queue)

    async def end(self) -> None:
        """Ends the links to workers."""
        await super().end()
        for request_server in tuple(self.request_servers):
            await request_server.close()

    def on_settled(self) -> None:
        """Has workers told that everything that was asked for was tried."""
        self._loop_queue.post(self._directory.settle)

    def _welcome(self, ends: ChannelDescriptors, _: int) -> None:
        self.request_servers.add(
            RequestServer(ends, self._loop_queue, self._directory, self.request_servers.discard)
        )
