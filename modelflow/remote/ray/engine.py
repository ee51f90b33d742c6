"""Replicas that are actors of a Ray cluster."""

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

# Seconds in which a machine that a replica needs may still join the cluster.
_PATIENCE = 20.0
# Seconds in which a cluster tells its machines, or is asked again.
_TOLD = 5.0
_CONNECT = 5.0
# In which Ray hears of the end of an actor that was seen to end.
_HEARD_OF = 1.0
# Seconds without a user after which an actor that several may use ends.
_ALONE = 10.0
# How often an actor is made that ends before it can be used.
_TRIES = 3
# Seconds: Ray tells nobody when a name is free again, ...
_NAME_PAUSE = 0.1
# ... nor when an actor is gone that is about to end.
_END_PAUSE = 0.5
# Calls of an actor at once: none of them has to do with batches.
_CALLS = 4

Result = TypeVar("Result")


class RayEngine(PlacementEngine):
    """Runs parts in actors of a cluster that this process is connected to."""

    def __init__(self, cluster: Cluster, shared: str | None = None) -> None:
        """Begins without actors.

        Args:
            cluster: Where they run.
            shared: A name: all engines of the same one, in whatever process, use the same actors,
                so that the batches of all meet there; None: they are this engine's alone.
        """
        super().__init__()
        self._cluster = cluster
        self._is_shared = shared is not None
        self._name = shared or uuid.uuid4().hex[:12]

    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes an actor that runs ``parts``; see `PlacementEngine.replica`."""
        archive = parts[0].config.archive
        name = f"{self._name}/{placement.name}/{number}"
        if self._is_shared:  # nobody finds the actors of another graph
            name = f"{name}/{_digest(placement, parts, archive)}"
        return RayReplica(self._cluster, placement, parts, archive, name, is_shared=self._is_shared)


class RayReplica(ChannelReplica):
    """One actor. Ray finds it a machine and says when it has ended; batches do not pass Ray."""

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
        """Stores what is to run."""
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
        """Has the cluster make the actor, opens the parts there, and connects; see `Replica.start`.

        Raises:
            ClusterError: no machine could ever hold it, none has room in time, or the actor cannot
                run the parts; the message says which.
            ReplicaLostError: the actor cannot be reached.
        """
        self._wait_for_a_machine(min(timeout, _PATIENCE))
        gone: Exception | None = None
        for _ in range(_TRIES):
            if self._is_over:
                raise ClusterError(ENDED_EARLY) from gone
            try:
                self._use(self._connect(timeout))
            except ActorGoneError as error:  # with its machine, say
                gone = error
            except ReplicaLostError as error:
                if not self._is_shared:
                    raise
                gone = error  # nobody used it for a moment, and it has ended
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
        """Finds or makes the actor, and returns channels to it.

        Raises:
            ClusterError: it is not ready in time, or cannot run the parts.
            ReplicaLostError: it cannot be reached.
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
            raise ActorGoneError("nobody used it, and it ends")
        return self._channels_to(door)

    def _in_time(self, ask: Callable[[float], Result], due: float) -> Result:
        try:
            return ask(max(0.0, due - monotonic()))
        except TimeoutError as error:
            raise ClusterError(self._not_ready(self._placement.start_timeout)) from error

    def lacking(self) -> str:
        """Says what it takes of a machine while it has none."""
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
        """Says why no machine could hold it; a stop is not to wait for a cluster that hangs."""
        try:
            return self._cluster.lacking(self._placement, _TOLD)
        except TimeoutError as error:
            return f"the cluster's machines cannot be told: {error}"

    def _find_actor(self, seconds: float) -> RemoteActor:
        """Returns the actor that bears the name, made if there is none.

        Raises:
            ClusterError: there is none, and its name is not free within so many seconds.
        """
        while True:
            if (found := self._cluster.find(self._name)) is not None:
                self._is_ours = False
                return found
            try:
                return self._make_actor()
            except LookupError as error:  # made meanwhile, or its name is not free yet
                seconds -= _NAME_PAUSE
                if seconds <= 0 or self._ended.wait(_NAME_PAUSE):
                    raise ClusterError(
                        f"{self._who} can neither be found nor made: {error}"
                    ) from error

    def _make_actor(self) -> RemoteActor:
        nodes = ", ".join(node for part in self._parts for node in _nodes(part))
        if not self._is_shared:  # nobody looks for it, and the last one's may not be free yet
            self._name = f"{self._base}/{uuid.uuid4().hex[:6]}"
        self._is_ours = True
        return self._cluster.make(
            self._name,
            self._placement,
            (PartActor, nodes, _ALONE if self._is_shared else None),
            calls=_CALLS,
            is_detached=self._is_shared,  # no user owns it: it ends when none is left
        )

    def _describe_end(self) -> str:
        return f"{self._who} has ended, or its machine cannot be reached any more"

    def reason(self) -> str:
        """Says why it was lost, with what Ray knows of it."""
        known = super().reason()
        said = "" if self._is_over or self._actor is None else self._actor.end_of(_HEARD_OF)
        return f"{known}: {said}" if said else known

    def close(self) -> None:
        """Leaves it; has its units closed and ends it, unless others may use it."""
        if not self._is_over:
            self._leave(END_TIMEOUT)
            if self._actor is not None and not self._is_shared:
                self._actor.try_call("stop", timeout=END_TIMEOUT)
        self.kill()
        self._close_channels()

    def kill(self) -> None:
        """Ends the actor at once; one that others may use ends by itself, once it has a machine."""
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
    """Returns what tells actors apart that run something else, wherever it was read."""
    from ray import cloudpickle

    asked = replace(placement, location=Location(""))
    written = repr((asked, [_describe_written(part) for part in parts])).encode()
    given = cloudpickle.dumps([part.units for part in parts])
    content = digest_of(archive).encode() if archive is not None else b""
    return hashlib.sha256(written + given + content).hexdigest()[:12]


def _describe_written(part: Part) -> tuple[Any, ...]:
    """Returns what was written of a part, in one order; of an archive not where that lies."""
    config = part.config
    nodes = [(node.name, sorted(node.attributes.items())) for node in config.nodes]
    edges = [(str(edge.source), str(edge.target)) for edge in config.edges]
    if config.archive is not None:  # its bytes say the rest
        return part.name, nodes, edges
    sections = [sorted(each.items()) for each in (config.driver, config.graph)]
    return part.name, nodes, edges, sections, config.path, config.modules


def _nodes(part: Part) -> list[str]:
    return [
        node.name for node in part.config.nodes if node.attributes.get("type") in (None, "flowunit")
    ]
