"""Tests of a flow from the view of its clients."""

import asyncio
import contextlib

import numpy as np
import pytest

import modelflow
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.admission import OverloadedError
from modelflow.serve.requests.served_model import ServedModel
from tests.serve.clients import TYPED, mean

ROW = {"input": np.ones((1, 2), np.float32)}


def test_room_that_an_answer_makes_is_seen_in_the_same_turn_of_the_loop():
    """Tests that the requests of a long turn do not have to wait for its end."""

    async def turn(flow):
        loop_queue = LoopQueue(asyncio.get_running_loop())
        model = ServedModel("m", 1, flow, loop_queue, ServeOptions(max_requests=1))
        answers = []
        for number in range(3):  # no await: this is one turn
            while True:
                with contextlib.suppress(OverloadedError):
                    model.expect(None)
                    break
            assert len(answers) == number
            model.infer(ROW, answers.append)
            with pytest.raises(OverloadedError, match="1 requests under way"):
                model.admission.admit(None)
        while model.admission.under_way:
            await asyncio.sleep(0)
        return answers

    with modelflow.Flow(TYPED.format(node="batch_size=8"), units=[mean]) as flow:
        answers = asyncio.run(turn(flow))
    assert [call.outputs()["output"].tolist() for call in answers] == [[1.0]] * 3


def test_a_version_that_is_replaced_while_a_request_makes_room_still_answers_it():
    """Tests a request that found the version, and is then queued behind the version's removal."""
    seen = []

    async def turn(flow):
        loop_queue = LoopQueue(asyncio.get_running_loop())
        model = ServedModel("m", 1, flow, loop_queue, ServeOptions(max_requests=1))
        answers = []
        model.infer(ROW, answers.append)
        loop_queue.post(lambda: model.retire(lambda: seen.append(len(answers))))
        while True:
            with contextlib.suppress(OverloadedError):
                model.expect(None)
                break
        model.infer(ROW, answers.append)
        while not seen:
            await asyncio.sleep(0)
        return answers

    with modelflow.Flow(TYPED.format(node="batch_size=8"), units=[mean]) as flow:
        answers = asyncio.run(turn(flow))
    assert seen == [2]
    assert [call.outputs()["output"].tolist() for call in answers] == [[1.0]] * 2
