"""Graphs on a Ray cluster: parts of them as actors, whole servers, whole flows in Ray Data."""

from modelflow.remote.ray.cluster import Cluster, connect
from modelflow.remote.ray.data import FlowActor
from modelflow.remote.ray.engine import RayEngine

__all__ = ["Cluster", "FlowActor", "RayEngine", "connect"]
