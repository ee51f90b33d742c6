"""Parts of a graph on other machines, or in other processes: a far part is a node.

The graph in front has a `RemoteUnit` in the place of each part that is placed; a `Pool` of
`Replica` answers its batches. A replica runs the part as an ordinary flow. What a replica is, and
where, a `PlacementEngine` knows: processes of this machine (`ProcessEngine`), or actors of a Ray
cluster (`modelflow.remote.ray`).
"""

from modelflow.remote.engine import PlacementEngine
from modelflow.remote.place_graph import nodes_in_order, placed
from modelflow.remote.process_engine import ProcessEngine

__all__ = ["PlacementEngine", "ProcessEngine", "nodes_in_order", "placed"]
