"""Requests of an inline flow that each submit the next one when they end."""

import asyncio

import pytest

import modelflow
from modelflow.stream_io.request import Request, submit

GRAPH = "digraph { input [type=input] output [type=output] input -> plus -> output }"


@modelflow.flowunit
def plus(x):
    return x + 1


def test_each_of_many_chained_submits_ends():
    ended = []
    with modelflow.Flow(GRAPH, units=[plus], threads=0) as flow:

        def begin(number):
            request = Request({"input": [number]}, on_end=lambda done: end(done, number))
            assert not submit(flow.scheduler, [request])

        def end(request, number):
            ended.append(request.answer()["output"][0].data)
            if number < 9_999:
                begin(number + 1)

        begin(0)
    assert ended == list(range(1, 10_001))


async def amapped(flow):
    return [answer.data async for _, answer in flow.amap([5])]


@pytest.mark.parametrize(
    "asked",
    [
        lambda flow: [flow.infer(5).data],
        lambda flow: [answer.data for _, answer in flow.map([5])],
        lambda flow: asyncio.run(amapped(flow)),
    ],
    ids=["infer", "map", "amap"],
)
def test_the_end_of_a_request_of_an_inline_flow_may_ask_and_wait(asked):
    answers = []
    with modelflow.Flow(GRAPH, units=[plus], threads=0) as flow:
        submit(
            flow.scheduler, [Request({"input": [1]}, on_end=lambda _: answers.extend(asked(flow)))]
        )
    assert answers == [6]
