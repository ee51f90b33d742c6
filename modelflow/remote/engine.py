"""The engine that makes replicas, and shares them between flows with the same parts."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from modelflow.config.placement import PlacementConfig
from modelflow.remote.part import Part
from modelflow.remote.pool import Pool
from modelflow.remote.replica import Replica


class PlacementEngine(ABC):
    """A place where replicas run, such as the processes of this machine, or a cluster.

    Flows share their replicas if their graphs have the same parts and are placed by the same
    engine. Their batches can then meet in the same replica.
    """

    def __init__(self) -> None:
        """Starts without replicas."""
        self._lock = threading.Lock()
        self._pools: WeakKeyDictionary[Pool, tuple[Part, ...]] = WeakKeyDictionary()

    @abstractmethod
    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes a replica that runs ``parts``; does not start the replica.

        Args:
            placement: The settings of the replica.
            parts: The parts that the replica runs.
            number: The number of the replica, from 0. Replicas that run at the same time have
                different numbers.
        """

    def pool(self, placement: PlacementConfig, parts: Sequence[Part]) -> Pool:
        """Returns the replicas of a placement; equal parts have the same pool."""
        with self._lock:
            for pool, theirs in self._pools.items():
                if pool.placement == placement and theirs == tuple(parts):
                    return pool
            pool = Pool(placement, lambda number: self.replica(placement, parts, number))
            self._pools[pool] = tuple(parts)
            return pool
