"""One server on a cluster, as `Servers` keeps it: the caller's side of a `ServerActor`."""

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

# Beside `wait`, which lasts as long as the server.
_CALLS = 4
# Beyond what a server may take to begin, or to answer what it has taken on.
_MORE = 10.0
# Seconds for an actor that is to be killed to clear up.
_LAST = 2.0


class RayServed(Served):
    """A server in an actor."""

    def __init__(
        self,
        cluster: Cluster,
        placement: PlacementConfig,
        name: str,
        files: Callable[[], tuple[Sequence[str], Mapping[str, Path]]],
        drain: float,
        apart: HostServers | None = None,
    ) -> None:
        """Begins nothing.

        Args:
            cluster: Where it is to be.
            placement: What it takes of its machine.
            name: The actor's name.
            files: Gives the arguments of ``modelflow serve``, and the archives that they name, as
                they are when it begins.
            drain: Seconds that its requests may take when it ends.
            apart: Has it begin on a machine where no other one is; None: it may be anywhere.
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
        """Begins, and waits until everything is loaded, and it answers; see `Served`.

        Raises:
            ClusterError: no machine can hold it, or none has room in time.
            ServerError: it did not begin; the message has what it said.
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
                f"it needs {describe_needs(self._placement)}, and no machine has had that free "
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
        """Waits for its end; see `Served`."""
        assert self._actor is not None  # it was opened
        try:
            code = self._actor.call("wait", timeout=None)
            self._is_open = False
        except ClusterError as error:
            self._has_left()
            return f"its actor is lost: {error}"
        self.kill()
        return f"it ended with {code}"

    def waiting(self) -> int:
        """Returns how many rows wait there; of one that does not answer none are known."""
        assert self._actor is not None  # it was begun
        return int(self._actor.try_call("waiting", timeout=_MORE) or 0)

    def leave(self) -> None:
        """Takes note that it is to end: another one may wait for its machine."""
        self._is_over = True

    def close(self) -> None:
        """Has it answer what it has taken on, and end, where it has not ended."""
        if self._actor is None or not self._is_open:
            return
        seconds = self._drain + _MORE
        self._actor.try_call("stop", seconds, timeout=seconds + _MORE)

    def kill(self) -> None:
        """Ends it at once."""
        with self._lock:
            self._is_over = True
            actor = self._actor
        if actor is not None:
            if self._is_open:  # killed it clears up nothing
                actor.try_call("end", timeout=_LAST)
            self._is_open = False
            actor.kill()
        self._has_left()

    def _has_left(self) -> None:
        if self._apart is not None:
            self._apart.on_end(self._name)
