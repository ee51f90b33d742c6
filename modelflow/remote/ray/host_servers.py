"""Placement of servers with the same port, each on its own machine."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from modelflow.config.placement import PlacementConfig
from modelflow.remote.ray.client import ClusterError
from modelflow.remote.ray.cluster import Cluster, describe_needs
from modelflow.remote.replica import ENDED_EARLY

_NODE = "ray.io/node-id"  # a label that Ray gives each machine
_PAUSE = 0.5  # seconds between two checks of the machines and of `is_over`


class HostServers:
    """The machines that have a server; the next server is placed on another machine."""

    def __init__(self, cluster: Cluster, placement: PlacementConfig) -> None:
        """Starts without servers.

        Args:
            cluster: The cluster for the servers.
            placement: The resources that each server needs on its machine.
        """
        self._cluster = cluster
        self._placement = placement
        self._changed = threading.Condition()
        self._is_placing = False
        # Server -> its machine, and a function that says whether the server is ending.
        self._taken: dict[str, tuple[str, Callable[[], bool]]] = {}

    @contextmanager
    def placing(
        self, is_over: Callable[[], bool]
    ) -> Iterator[tuple[Mapping[str, str], Callable[[str, str], None]]]:
        """Waits until a machine has no server, and no other server is being placed.

        Args:
            is_over: Returns whether the server ends, or must not start any more. Called from any
                thread until `on_end`. While a server is ending, `placing` waits for its machine.

        Yields:
            The labels that Ray must find on the machine. And a function to call with the server's
            name and the machine, once the machine is known.

        Raises:
            ClusterError: `is_over` returned True, or each machine has a server that does not end.
        """

        def on_placed(name: str, machine: str) -> None:
            with self._changed:
                self._taken[name] = machine, is_over

        with self._changed:
            while self._is_placing or not self._has_room():
                if is_over():
                    raise ClusterError(ENDED_EARLY)
                self._changed.wait(_PAUSE)
            self._is_placing = True
            taken = sorted(self._machines())
        try:
            yield ({_NODE: f"!in({','.join(taken)})"} if taken else {}), on_placed
        finally:
            with self._changed:
                self._is_placing = False
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Returns whether a machine has no server; False if one will be free later.

        Raises:
            ClusterError: Each machine has a server that does not end.
        """
        fitting = [machine for machine in self._cluster.machines() if machine.fits(self._placement)]
        taken = self._machines()
        if any(machine.labels.get(_NODE) not in taken for machine in fitting):
            return True
        if self._is_placing or any(is_over() for _, is_over in self._taken.values()):
            return False
        raise ClusterError(
            f"it needs {describe_needs(self._placement)} on a machine where no other server has "
            f"its port, and all {len(fitting)} have one. Add a machine, or let each server find a "
            "free port (port 0)"
        )

    def _machines(self) -> set[str]:
        return {machine for machine, _ in self._taken.values()}

    def on_end(self, name: str) -> None:
        """Forgets a server that has ended."""
        with self._changed:
            self._taken.pop(name, None)
            self._changed.notify_all()
