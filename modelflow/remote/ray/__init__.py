"""Graphs on a Ray cluster: parts of them as actors, whole servers, flows in Ray Data.

In: parts and their placement from `modelflow.remote`. Out: replicas that are actors.

Ray's client runs in its own process (``client.py``, ``client_process.py``). A lost cluster can end
or hang the process that is connected to the cluster. Actors are sent by value; a cluster with
another version of modelflow then answers with one clear line (``actor_loader.py``). No other folder
imports Ray.
"""

from modelflow.remote.ray.cluster import Cluster, connect
from modelflow.remote.ray.data import FlowActor
from modelflow.remote.ray.engine import RayEngine

__all__ = ["Cluster", "FlowActor", "RayEngine", "connect"]
