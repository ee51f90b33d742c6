"""A flow as what is loaded."""

import threading

import pytest

import modelflow
from modelflow.tune.flow_target import FlowTarget


@modelflow.flowunit
def odd_fails(value):
    if value % 2:
        message = "odd"
        raise ValueError(message)
    return value


GRAPH = "digraph g { input [type=input] odd_fails o [type=output] input -> odd_fails -> o }"


@pytest.mark.parametrize(("number", "outcome"), [(0, "ok"), (1, "ValueError"), (2, "ok")])
def test_requests_go_in_turns_and_say_what_became_of_them(number, outcome):
    over = threading.Event()
    with modelflow.Flow(GRAPH, units=[odd_fails]) as flow:
        target = FlowTarget(flow, [{"input": [0]}, {"input": [1]}])
        request = target.make(number, lambda _: over.set())
        assert list(target.submit([request], lambda: None)) == []
        over.wait(60)
        assert target.outcome(request) == outcome
