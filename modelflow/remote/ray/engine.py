"""An engine with replicas that are actors of a Ray cluster."""

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from modelflow.archive.received import digest_of
from modelflow.config.placement import PlacementConfig
from modelflow.errors import Location, ReplicaLostError
from modelflow.http.options import join_address
from modelflow.ipc.channel import Channel
from modelflow.ipc.process import END_TIMEOUT
from modelflow.ipc.socket_channel import SocketChannel, call
from modelflow.remote.channel_replica import ChannelReplica
from modelflow.remote.engine import PlacementEngine
from modelflow.remote.part import Part
from modelflow.remote.ray.actor import ActorEndpoint, PartActor
from modelflow.remote.ray.client import ActorGoneError, ClusterError
from modelflow.remote.ray.cluster import Cluster, RemoteActor, describe_needs
from modelflow.remote.replica import ENDED_EARLY, Replica

# Seconds in which a machine for a replica may still join the cluster.
_PATIENCE = 20.0
# Seconds of waiting for the list of the cluster's machines.
_TOLD = 5.0
_CONNECT = 5.0
# Seconds of waiting for Ray to notice the end of an actor.
_HEARD_OF = 1.0
# Seconds without a connection after which a shared actor ends itself.
_ALONE = 10.0
# Number of tries to make an actor that ends before its first use.
_TRIES = 3
# Seconds between two tries. Ray does not report when a name is free again ...
_NAME_PAUSE = 0.1
# ... or when an actor that is about to end has ended.
_END_PAUSE = 0.5
# Calls of an actor at once, for everything but batches.
_CALLS = 4

Result = TypeVar("Result")


class RayEngine(PlacementEngine):
    """An engine that runs parts in actors of a Ray cluster."""

    def __init__(self, cluster: Cluster, shared: str | None = None) -> None:
        """Starts without actors.

        Args:
            cluster: The cluster for the actors.
            shared: A name. All engines with the same name, in any process, use the same actors, and
                their batches meet in the same replicas. None for actors of this engine alone.
        """
        super().__init__()
        self._cluster = cluster
        self._is_shared = shared is not None
        self._name = shared or uuid.uuid4().hex[:12]

    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes a replica that runs ``parts``; see `PlacementEngine.replica`."""
        archive = parts[0].config.archive
        name = f"{self._name}/{placement.name}/{number}"
        if self._is_shared:  # the digest keeps the actors of different graphs apart
            name = f"{name}/{_digest(placement, parts, archive)}"
        return RayReplica(self._cluster, placement, parts, archive, name, is_shared=self._is_shared)


class RayReplica(ChannelReplica):
    """A replica in an actor, which Ray places and watches; batches do not pass through Ray."""

    def __init__(
        self,
        cluster: Cluster,
        placement: PlacementConfig,
        parts: Sequence[Part],
        archive: Path | None,
        name: str,
        *,
        is_shared: bool,
    ) -> None:
        """Stores the parts; makes no actor."""
        super().__init__(placement)
        self._cluster = cluster
        self._parts = tuple(parts)
        self._archive = archive
        self._base = self._name = name
        self._where = ""
        self._is_shared = is_shared
        self._is_ours = True
        self._actor: RemoteActor | None = None

    @property
    def _who(self) -> str:
        return f"actor {self._name}{self._where}"

    def start(self, timeout: float) -> None:
        """Makes the actor, opens the parts in the actor, and connects; see `Replica.start`.

        Raises:
            ClusterError: No machine could ever hold the actor, none has room in time, or the actor
                cannot run the parts. The message says which.
            ReplicaLostError: The actor cannot be reached.
        """
        self._wait_for_a_machine(min(timeout, _PATIENCE))
        gone: Exception | None = None
        for _ in range(_TRIES):
            if self._is_over:
                raise ClusterError(ENDED_EARLY) from gone
            try:
                self._use(self._connect(timeout))
            except ActorGoneError as error:  # for example, with its machine
                gone = error
            except ReplicaLostError as error:
                if not self._is_shared:
                    raise
                gone = error  # the shared actor had no connection for a moment, and has ended
            else:
                return
            if self._is_shared:
                self._ended.wait(_END_PAUSE)
        if isinstance(gone, ReplicaLostError):
            raise gone
        raise ClusterError(
            f"it has ended {_TRIES} times before it could be used; the last time: {gone}"
        ) from gone

    def _connect(self, timeout: float) -> list[Channel]:
        """Finds or makes the actor, and returns channels to the actor.

        Raises:
            ClusterError: The actor is not ready in time, or cannot run the parts.
            ReplicaLostError: The actor cannot be reached.
        """
        actor = self._find_actor(timeout) if self._is_shared else self._make_actor()
        with self._lock:
            self._actor = actor
            is_over = self._is_over
        if is_over:
            self.kill()
        due = monotonic() + timeout
        digest = ""
        if (archive := self._archive) is not None:
            digest = self._in_time(lambda left: actor.send(archive, left), due)
        door: ActorEndpoint | None = self._in_time(
            lambda left: actor.call("open", self._parts, digest, timeout=left), due
        )
        if door is None:
            raise ActorGoneError("it has no user, and is ending")
        return self._channels_to(door)

    def _in_time(self, ask: Callable[[float], Result], due: float) -> Result:
        try:
            return ask(max(0.0, due - monotonic()))
        except TimeoutError as error:
            raise ClusterError(self._not_ready(self._placement.start_timeout)) from error

    def lacking(self) -> str:
        """Returns the resources that the actor waits for, or "" once the actor has a machine."""
        if self._is_placed():
            return ""
        needed, free = describe_needs(self._placement), self._cluster.free_text()
        return f"waits for {needed} on one machine; free in the cluster: {free}"

    def _channels_to(self, door: ActorEndpoint) -> list[Channel]:
        from ray import cloudpickle

        channels: list[Channel] = []
        self._where = f" on {door.address[0]}"
        try:
            for _ in range(self._channel_count):
                connection = call(door.address, door.key, _CONNECT)
                channels.append(SocketChannel(connection, cloudpickle.dumps))
        except OSError as error:
            for channel in channels:
                channel.close()
            address = join_address(*door.address)
            raise ReplicaLostError(
                f"{self._who} cannot be reached at {address} ({error.strerror or error}); the "
                "machines of a cluster must reach each other at every port, as for Ray itself"
            ) from error
        return channels

    def _not_ready(self, timeout: float) -> str:
        if self._is_over:
            return ENDED_EARLY
        return (
            f"it needs {describe_needs(self._placement)}, and was not ready within {timeout:g} s "
            f"([placement.{self._placement.name}] start_timeout_ms); free in the cluster: "
            f"{self._cluster.free_text()}"
        )

    def _wait_for_a_machine(self, seconds: float) -> None:
        until = monotonic() + seconds
        while lacking := self._lacking():
            left = until - monotonic()
            if left <= 0 or self._ended.wait(min(1.0, left)):
                raise ClusterError(lacking)

    def _lacking(self) -> str:
        """Returns why no machine could hold the actor; a hanging cluster does not block `kill`."""
        try:
            return self._cluster.lacking(self._placement, _TOLD)
        except TimeoutError as error:
            return f"the machines of the cluster are unknown: {error}"

    def _find_actor(self, seconds: float) -> RemoteActor:
        """Returns the actor with the name of this replica, which is made if missing.

        Raises:
            ClusterError: The actor does not exist, and its name is not free in time.
        """
        while True:
            if (found := self._cluster.find(self._name)) is not None:
                self._is_ours = False
                return found
            try:
                return self._make_actor()
            except LookupError as error:  # another process made the actor, or the name is not free
                seconds -= _NAME_PAUSE
                if seconds <= 0 or self._ended.wait(_NAME_PAUSE):
                    raise ClusterError(
                        f"{self._who} can neither be found nor made: {error}"
                    ) from error

    def _make_actor(self) -> RemoteActor:
        nodes = ", ".join(node for part in self._parts for node in _nodes(part))
        if not self._is_shared:  # a new name, because the name of the last actor may not be free
            self._name = f"{self._base}/{uuid.uuid4().hex[:6]}"
        self._is_ours = True
        return self._cluster.make(
            self._name,
            self._placement,
            (PartActor, nodes, _ALONE if self._is_shared else None),
            calls=_CALLS,
            is_detached=self._is_shared,  # a shared actor has no owner and ends itself
        )

    def _describe_end(self) -> str:
        return f"{self._who} has ended, or its machine cannot be reached any more"

    def reason(self) -> str:
        """Returns the reason of the loss, with Ray's reason of the actor's end."""
        known = super().reason()
        said = "" if self._is_over or self._actor is None else self._actor.end_of(_HEARD_OF)
        return f"{known}: {said}" if said else known

    def close(self) -> None:
        """Closes the units and kills the actor; a shared actor is only disconnected."""
        if not self._is_over:
            self._leave(END_TIMEOUT)
            if self._actor is not None and not self._is_shared:
                self._actor.try_call("stop", timeout=END_TIMEOUT)
        self.kill()
        self._close_channels()

    def kill(self) -> None:
        """Kills the actor at once; a shared actor ends itself, once placed on a machine."""
        with self._lock:
            self._ended.set()
            for channel in self._channels:
                channel.end()
            self._reporting.end()
        if not self._is_shared or (self._is_ours and not self._is_placed()):
            self._kill_hung()

    def _is_placed(self) -> bool:
        return self._actor is not None and self._actor.is_placed()

    def _kill_hung(self) -> None:
        if self._actor is not None:
            self._actor.kill()


def _digest(placement: PlacementConfig, parts: Sequence[Part], archive: Path | None) -> str:
    """Returns a digest that differs for actors with different parts, wherever they were read."""
    from ray import cloudpickle

    asked = replace(placement, location=Location(""))
    written = repr((asked, [_describe_written(part) for part in parts])).encode()
    given = cloudpickle.dumps([part.units for part in parts])
    content = digest_of(archive).encode() if archive is not None else b""
    return hashlib.sha256(written + given + content).hexdigest()[:12]


def _describe_written(part: Part) -> tuple[Any, ...]:
    """Returns the configuration of a part in a fixed order, for an archive without its path."""
    config = part.config
    nodes = [(node.name, sorted(node.attributes.items())) for node in config.nodes]
    edges = [(str(edge.source), str(edge.target)) for edge in config.edges]
    if config.archive is not None:  # the digest covers the content of the archive
        return part.name, nodes, edges
    sections = [sorted(each.items()) for each in (config.driver, config.graph)]
    return part.name, nodes, edges, sections, config.path, config.modules


def _nodes(part: Part) -> list[str]:
    return [
        node.name for node in part.config.nodes if node.attributes.get("type") in (None, "flowunit")
    ]
