"""One server on a cluster, as `Servers` keeps it: the caller's side of a `ServerActor`."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.ray.actor import Origin
from modelflow.ray.apart import Apart
from modelflow.ray.cluster import (
    Cluster,
    ClusterError,
    actor_options,
    first_line,
    needed_text,
    opened,
)
from modelflow.ray.server_actor import ServerActor

__all__ = ["RayServed"]

# Beside `wait`, which lasts as long as the server.
_CALLS = 4
# Beyond what a server may take to begin, or to answer what it has taken on.
_MORE = 10.0
# Seconds for an actor that is to be killed to clear up.
_LAST = 2.0


class RayServed:
    """A server in an actor."""

    def __init__(
        self,
        cluster: Cluster,
        placement: PlacementConfig,
        name: str,
        files: Callable[[], tuple[Sequence[str], Mapping[str, bytes]]],
        drain: float,
        apart: Apart | None = None,
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
        self._actor: Any = None
        self._is_over = self._is_open = False

    def open(self) -> str:
        """Begins; see `Served`.

        Raises:
            ClusterError: no machine can hold it, or none has room in time.
            ServerError: it did not begin; the message has what it said.
        """
        if lacking := self._cluster.lacking(self._placement):
            raise ClusterError(lacking)
        words, archives = self._files()
        timeout = self._placement.start_timeout

        def late() -> str:
            return (
                f"it needs {needed_text(self._placement)}, and no machine has had that free "
                f"within {timeout:g} s"
            )

        if self._apart is None:
            self._begin({})
        else:
            with self._apart.placing(lambda: self._is_over) as (labels, placed):
                self._begin(labels)
                placed(self._name, opened(self._actor.machine.remote(), timeout + _MORE, late))
        ref = self._actor.open.remote(words, archives, str(Path.cwd()), timeout)
        self._is_open = True
        address: str = opened(ref, timeout + _MORE, late)
        return address

    def _begin(self, labels: Mapping[str, str]) -> None:
        import ray

        placement = replace(self._placement, labels={**self._placement.labels, **labels})
        options = actor_options(placement, self._name, _CALLS)
        with self._lock:
            if self._is_over:
                message = "it was ended before it had begun"
                raise ClusterError(message)
            self._actor = ray.remote(ServerActor).options(**options).remote(Origin.here(self._name))

    def wait(self) -> str:
        """Waits for its end; see `Served`."""
        import ray
        from ray.exceptions import RayError

        try:
            code = ray.get(self._actor.wait.remote())
            self._is_open = False
        except RayError as error:
            self._has_left()
            return f"its actor is lost: {first_line(error)}"
        self.kill()
        return f"it ended with {code}"

    def waiting(self) -> int:
        """Returns how many rows wait there; of one that does not answer none are known."""
        import ray
        from ray.exceptions import RayError

        try:
            return int(ray.get(self._actor.waiting.remote(), timeout=_MORE))
        except RayError:
            return 0

    def leave(self) -> None:
        """Takes note that it is to end: another one may wait for its machine."""
        self._is_over = True

    def stop(self) -> None:
        """Has it answer what it has taken on, and end."""
        import ray
        from ray.exceptions import RayError

        with contextlib.suppress(RayError):
            seconds = self._drain + _MORE
            ray.get(self._actor.stop.remote(seconds), timeout=seconds + _MORE)

    def kill(self) -> None:
        """Ends it at once."""
        import ray
        from ray.exceptions import RayError

        with self._lock:
            self._is_over = True
            actor = self._actor
        if actor is not None:
            if self._is_open:  # killed it clears up nothing
                with contextlib.suppress(RayError):
                    ray.get(actor.end.remote(), timeout=_LAST)
            ray.kill(actor)
        self._has_left()

    def _has_left(self) -> None:
        if self._apart is not None:
            self._apart.left(self._name)
