"""Graphs on a Ray cluster: parts of them as actors, whole flows in Ray Data."""

from modelflow.ray.cluster import Cluster, connected
from modelflow.ray.data import FlowActor
from modelflow.ray.engine import RayEngine

__all__ = ["Cluster", "FlowActor", "RayEngine", "connected"]
