"""A server on a cluster, for `Servers`: the caller's side of a `ServerActor`."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from modelflow.config.placement import PlacementConfig
from modelflow.remote.ray.client import ClusterError
from modelflow.remote.ray.cluster import Cluster, RemoteActor, describe_needs
from modelflow.remote.ray.host_servers import HostServers
from modelflow.remote.ray.server_actor import ServerActor
from modelflow.remote.ray.servers import Served
from modelflow.remote.replica import ENDED_EARLY

# Calls of the actor at once, besides `wait`, which lasts for the life of the server.
_CALLS = 4
# Seconds beyond the time-out for the start of a server, or for its open requests.
_MORE = 10.0
# Seconds for the cleanup of an actor before it is killed.
_LAST = 2.0


class RayServed(Served):
    """A server in an actor of a Ray cluster."""

    def __init__(
        self,
        cluster: Cluster,
        placement: PlacementConfig,
        name: str,
        files: Callable[[], tuple[Sequence[str], Mapping[str, Path]]],
        drain: float,
        apart: HostServers | None = None,
    ) -> None:
        """Stores the settings; starts no server.

        Args:
            cluster: The cluster for the server.
            placement: The resources that the server needs on its machine.
            name: The name of the actor.
            files: Returns the arguments of ``modelflow serve``, and the archives that they name.
                Called at the start of the server.
            drain: Seconds for open requests when the server ends.
            apart: Chooses a machine without another server; None for any machine.
        """
        self._cluster = cluster
        self._placement = placement
        self._name = name
        self._files = files
        self._drain = drain
        self._apart = apart
        self._lock = threading.Lock()
        self._actor: RemoteActor | None = None
        self._is_over = self._is_open = False

    def start(self, timeout: float) -> None:
        """Starts the server, and waits until every model is loaded; see `Served`.

        Raises:
            ClusterError: No machine can hold the server, or none has room in time.
            ServerError: The server did not start; the message has its output.
        """
        if lacking := self._cluster.lacking(self._placement):
            raise ClusterError(lacking)
        words, archives = self._files()
        due = monotonic() + timeout + _MORE
        try:
            if self._apart is None:
                actor = self._begin({})
            else:
                with self._apart.placing(lambda: self._is_over) as (labels, placed):
                    actor = self._begin(labels)
                    placed(self._name, actor.call("machine", timeout=due - monotonic()))
            digests = {name: actor.send(path, due - monotonic()) for name, path in archives.items()}
            self._is_open = True
            left = max(0.0, due - monotonic())
            given = (words, digests, str(Path.cwd()), timeout)
            self.address = actor.call("open", *given, timeout=left)
        except TimeoutError as error:
            raise ClusterError(
                f"it needs {describe_needs(self._placement)}, and no machine had that free "
                f"within {timeout:g} s"
            ) from error

    def _begin(self, labels: Mapping[str, str]) -> RemoteActor:
        placement = replace(self._placement, labels={**self._placement.labels, **labels})
        with self._lock:
            if self._is_over:
                raise ClusterError(ENDED_EARLY)
            self._actor = self._cluster.make(self._name, placement, (ServerActor,), calls=_CALLS)
            return self._actor

    def wait(self) -> str:
        """Waits for the end of the server; see `Served`."""
        assert self._actor is not None  # `start` was called
        try:
            code = self._actor.call("wait", timeout=None)
            self._is_open = False
        except ClusterError as error:
            self._has_left()
            return f"its actor is lost: {error}"
        self.kill()
        return f"it ended with {code}"

    def waiting(self) -> int:
        """Returns the number of rows in the server's queues; 0 if the server does not answer."""
        assert self._actor is not None  # `start` was called
        return int(self._actor.try_call("waiting", timeout=_MORE) or 0)

    def leave(self) -> None:
        """Marks the server as ending, because another server may wait for its machine."""
        self._is_over = True

    def close(self) -> None:
        """Ends a running server after its open requests."""
        if self._actor is None or not self._is_open:
            return
        seconds = self._drain + _MORE
        self._actor.try_call("stop", seconds, timeout=seconds + _MORE)

    def kill(self) -> None:
        """Kills the server."""
        with self._lock:
            self._is_over = True
            actor = self._actor
        if actor is not None:
            if self._is_open:  # a killed actor does not clean up
                actor.try_call("end", timeout=_LAST)
            self._is_open = False
            actor.kill()
        self._has_left()

    def _has_left(self) -> None:
        if self._apart is not None:
            self._apart.on_end(self._name)
