"""Servers that answer at the same port, each on a machine of its own."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from modelflow.config.placement import PlacementConfig
from modelflow.remote.ray.client import ClusterError
from modelflow.remote.ray.cluster import Cluster, describe_needs
from modelflow.remote.replica import ENDED_EARLY

_NODE = "ray.io/node-id"  # Ray labels each machine with it
_PAUSE = 0.5  # seconds between two looks at the machines, and whether it is over


class HostServers:
    """Knows the machines on which there is a server; begins the next one on another."""

    def __init__(self, cluster: Cluster, placement: PlacementConfig) -> None:
        """Begins nothing.

        Args:
            cluster: Where they are to be.
            placement: What each takes of its machine.
        """
        self._cluster = cluster
        self._placement = placement
        self._changed = threading.Condition()
        self._is_placing = False
        # Of each server the machine, and what tells whether it is to end.
        self._taken: dict[str, tuple[str, Callable[[], bool]]] = {}

    @contextmanager
    def placing(
        self, is_over: Callable[[], bool]
    ) -> Iterator[tuple[Mapping[str, str], Callable[[str, str], None]]]:
        """Waits until a machine has none of them, and nobody else looks for one.

        Args:
            is_over: Tells whether the server is to end, or not to begin any more. It is asked
                from any thread until `on_end`: the machine of one that is to end is waited for.

        Returns:
            What the machine must be labelled with, for Ray; and what is to be called once it is
            known, with the server's name and the machine.

        Raises:
            ClusterError: it is over, or each machine has one that stays.
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
        """Tells whether a machine has none; False: one leaves, or is being placed.

        Raises:
            ClusterError: each has one that stays.
        """
        fitting = [machine for machine in self._cluster.machines() if machine.fits(self._placement)]
        taken = self._machines()
        if any(machine.labels.get(_NODE) not in taken for machine in fitting):
            return True
        if self._is_placing or any(is_over() for _, is_over in self._taken.values()):
            return False
        raise ClusterError(
            f"it needs {describe_needs(self._placement)} on a machine where no other server has "
            f"its port, and all {len(fitting)} have one; add a machine, or let each find a port "
            "that is free (port 0)"
        )

    def _machines(self) -> set[str]:
        return {machine for machine, _ in self._taken.values()}

    def on_end(self, name: str) -> None:
        """Takes note that a server has ended."""
        with self._changed:
            self._taken.pop(name, None)
            self._changed.notify_all()
