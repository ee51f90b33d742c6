"""Replicas that are flows of this process: tests the transport without other processes."""

import pickle

from modelflow import Flow
from modelflow.errors import ReplicaLostError, StreamClosed
from modelflow.plan.partition import find_partitions, front_of
from modelflow.remote.engine import PlacementEngine
from modelflow.remote.part import PartFlow
from modelflow.remote.pool import Pool
from modelflow.remote.remote_unit import remote_spec
from modelflow.remote.replica import Replica


class LocalReplica(Replica):
    """Runs parts here; messages go through pickle, as on their way to a process."""

    def __init__(self, parts, calls=None):
        self.parts = parts
        self.calls = [] if calls is None else calls

    def start(self, timeout):
        for part in self.parts.values():
            part.start()

    def call(self, rows, timeout):
        self.calls.append(len(rows))
        there = pickle.loads(pickle.dumps(rows))
        try:
            return pickle.loads(pickle.dumps(self.parts[there.part].answer(there)))
        except StreamClosed as error:
            raise ReplicaLostError(str(error)) from error

    def is_alive(self):
        return True

    def close(self):
        for part in self.parts.values():
            part.stop()

    kill = close


def placed_here(graph, calls=None):
    """Returns the graph in front of replicas of this process, and the partitions."""
    partitions = find_partitions(graph)
    together = {}
    for part in partitions:
        together.setdefault(part.placement.name, []).append(part)
    pools = {name: _pool(parts, calls) for name, parts in together.items()}
    front = front_of(graph, partitions, lambda part: remote_spec(part, pools[part.placement.name]))
    return front, partitions


def _pool(parts, calls):
    return Pool(parts[0].placement, lambda _: LocalReplica(_flows(parts), calls))


def _flows(partitions):
    return {part.name: PartFlow(Flow(part.graph)) for part in partitions}


class LocalEngine(PlacementEngine):
    """Runs parts in replicas of this process, parsed again from the sent form."""

    def replica(self, placement, parts, number):
        return LocalReplica({part.name: PartFlow.of(part) for part in parts})


def figures_of(engine):
    """Returns the figures of an engine's pools, by the names of their placements."""
    return {pool.placement.name: pool.figures() for pool in engine._pools}
