"""What makes replicas, and keeps those that run the same together."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from modelflow.config.placement import PlacementConfig
from modelflow.remote.part import Part
from modelflow.remote.pool import Pool
from modelflow.remote.replica import Replica


class PlacementEngine(ABC):
    """A place where replicas run: processes of this machine, a cluster.

    Flows whose graphs have the same parts, placed by one engine, share their replicas: the batches
    of all of them meet there.
    """

    def __init__(self) -> None:
        """Begins without replicas."""
        self._lock = threading.Lock()
        self._pools: WeakKeyDictionary[Pool, tuple[Part, ...]] = WeakKeyDictionary()

    @abstractmethod
    def replica(self, placement: PlacementConfig, parts: Sequence[Part], number: int) -> Replica:
        """Makes a replica that runs ``parts``; starts nothing.

        Args:
            placement: What each of them has.
            parts: What it runs.
            number: From 0 on, one for each that runs at the same time.
        """

    def pool(self, placement: PlacementConfig, parts: Sequence[Part]) -> Pool:
        """Returns the replicas of a placement; the same for the same parts."""
        with self._lock:
            for pool, theirs in self._pools.items():
                if pool.placement == placement and theirs == tuple(parts):
                    return pool
            pool = Pool(placement, lambda number: self.replica(placement, parts, number))
            self._pools[pool] = tuple(parts)
            return pool
