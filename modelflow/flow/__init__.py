"""The SDK: a graph and its running engine, as users hold it."""

from modelflow.flow.flow import Flow

__all__ = ["Flow"]
