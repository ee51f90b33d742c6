"""The members for a worker process and for the process with the models."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from modelflow.ipc.loop_queue import LoopQueue
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.serve.interfaces import GroupCounts, ModelSource, ReplicaGroup, Told
from modelflow.serve.options import UNTUNED, ServeOptions, Tuning
from modelflow.serve.processes.control_channel import ControlChannel, Message
from modelflow.serve.processes.member.replica import ReplicaMember
from modelflow.serve.processes.role import Role
from modelflow.serve.processes.rpc.model_directory import ModelDirectory
from modelflow.serve.processes.rpc.remote_models import RemoteModelSource
from modelflow.serve.processes.rpc.request_server import RequestServer


class WorkerMember(ReplicaMember):
    """The member of a process that has no models, or all models except the isolated models."""

    _far: RemoteModelSource

    def __init__(self, channel: ControlChannel, start: Message) -> None:
        """Reads the first message; see `ReplicaMember`."""
        super().__init__(channel, start)
        self._has_models = start["role"] == Role.REPLICA

    def stock(self, options: ServeOptions) -> ModelSource | None:
        """Returns the models of the other processes, or None if this process has models."""
        return None if self._has_models else self._join(options, None)

    def extend(self, own: ModelSource, options: ServeOptions) -> ModelSource:
        """Returns the models of this process and of the other processes."""
        return self._join(options, own)

    def _join(self, options: ServeOptions, own: ModelSource | None) -> ModelSource:
        self._far = RemoteModelSource(
            options, self.fd_channel, self.isolated, own, self.connect_peer
        )
        return self._far

    async def end(self) -> None:
        """Closes the links to the other processes."""
        await super().end()
        await self._far.close()

    def _open_links(self, _: LoopQueue) -> None:
        """Does nothing, because the source of the models takes all links."""


class PublishedModels:
    """A `ReplicaGroup` that confirms a change when all workers have seen the change."""

    def __init__(self, own: ReplicaGroup, directory: ModelDirectory) -> None:
        """Stores the group that makes the changes, and the directory that publishes them."""
        self._own = own
        self._directory = directory

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Passes the counts of this process to ``told``."""
        self._own.counts(told)

    def load(self, name: str, told: Told, tuning: Tuning = UNTUNED) -> None:
        """Loads a model."""
        self._own.load(name, self._on_seen(told), tuning)

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model."""
        self._own.unload(name, self._on_seen(told))

    def share(self, change: Mapping[str, Any], told: Told) -> None:
        """Registers or removes shared memory, which only workers read. Nothing is published."""
        self._own.share(change, told)

    def configure(self, config: bytes, told: Told) -> None:
        """Serves the models of a ``ReloadConfigRequest``."""
        self._own.configure(config, self._on_seen(told))

    def _on_seen(self, told: Told) -> Told:
        return lambda error: self._directory.call_when_seen(partial(told, error))


class ModelsMember(ReplicaMember):
    """The member of the process that has all models, and connections only to workers."""

    _directory: ModelDirectory
    _loop_queue: LoopQueue

    def join(self, own: ModelSource) -> ReplicaGroup:
        """Returns the group that changes the models of this process."""
        self._directory = ModelDirectory(own.models)
        self.request_servers: set[RequestServer] = set()
        return self._join_group(PublishedModels(own.replica_group, self._directory))

    def begin(self, loop_queue: LoopQueue) -> None:
        """Starts to take requests of the supervisor and of workers."""
        self._loop_queue = loop_queue
        self._directory.begin(loop_queue)
        super().begin(loop_queue)

    def _open_links(self, loop_queue: LoopQueue) -> None:
        """Starts to take links to workers."""
        loop_queue.post(partial(self.fd_channel.open, self._welcome))

    async def end(self) -> None:
        """Closes the links to workers."""
        await super().end()
        for request_server in tuple(self.request_servers):
            await request_server.close()

    def on_settled(self) -> None:
        """Informs workers that every model has loaded or failed."""
        self._loop_queue.post(self._directory.settle)

    def _welcome(self, ends: ChannelDescriptors, _: int) -> None:
        self.request_servers.add(
            RequestServer(ends, self._loop_queue, self._directory, self.request_servers.discard)
        )
