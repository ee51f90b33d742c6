"""Flows with a known history."""

import contextlib

import modelflow
from modelflow.errors import FlowUnitError

__all__ = ["used_flow"]

GRAPH = "digraph known { input [type=input] odd output [type=output] input -> odd -> output }"


@modelflow.flowunit
def odd(value: int):
    """Refuses odd numbers."""
    if value % 2:
        message = "odd"
        raise ValueError(message)
    return value


def used_flow(ok=4, failed=2):
    """Returns a flow that has answered so many requests, and has stopped."""
    with modelflow.Flow(GRAPH, units=[odd]) as flow:
        for value in [0] * ok + [1] * failed:
            with contextlib.suppress(FlowUnitError):
                flow.infer(value)
    return flow
