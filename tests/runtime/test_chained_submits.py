"""Requests of an inline flow that each submit the next one when they end."""

import modelflow
from modelflow.request import Request


@modelflow.flowunit
def plus(x):
    return x + 1


def test_each_of_many_chained_submits_ends():
    ended = []
    graph = "digraph { input [type=input] output [type=output] input -> plus -> output }"
    with modelflow.Flow(graph, units=[plus], threads=0) as flow:

        def submit(number):
            request = Request({"input": [number]}, on_end=lambda done: end(done, number))
            assert not flow.submit([request])

        def end(request, number):
            ended.append(request.answer()["output"][0].data)
            if number < 9_999:
                submit(number + 1)

        submit(0)
    assert ended == list(range(1, 10_001))
