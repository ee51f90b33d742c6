"""Graphs on a Ray cluster: parts of them as actors, whole servers, whole flows in Ray Data."""

from modelflow.ray.cluster import Cluster
from modelflow.ray.connection import connected
from modelflow.ray.data import FlowActor
from modelflow.ray.engine import RayEngine

__all__ = ["Cluster", "FlowActor", "RayEngine", "connected"]
