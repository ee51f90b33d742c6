"""Graphs on a Ray cluster: parts of them as actors, whole servers, flows in Ray Data.

In: parts and their placement from `modelflow.remote`. Out: replicas that are actors.

Ray's client is a process of its own (``client.py``, ``client_process.py``), because a cluster that
is gone can end or hang the process that is connected to it. Actors are sent by value, so a cluster
with another version of modelflow answers with one clear line (``actor_loader.py``). No other folder
imports Ray.
"""

from modelflow.remote.ray.cluster import Cluster, connected
from modelflow.remote.ray.data import FlowActor
from modelflow.remote.ray.engine import RayEngine

__all__ = ["Cluster", "FlowActor", "RayEngine", "connected"]
