"""Execution of parts of a graph on other machines, or in other processes.

The local graph has a remote node (`RemoteUnit`) in the place of each part with a placement. A
`Pool` of `Replica` objects processes the batches of that node. A replica runs the part as an
ordinary flow. A `PlacementEngine` makes the replicas: processes of this machine (`ProcessEngine`),
or actors of a Ray cluster (`modelflow.remote.ray`).
"""

from modelflow.remote.engine import PlacementEngine
from modelflow.remote.place_graph import nodes_in_order, place_nodes
from modelflow.remote.process_engine import ProcessEngine

__all__ = ["PlacementEngine", "ProcessEngine", "nodes_in_order", "place_nodes"]
