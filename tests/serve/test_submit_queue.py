"""Tests of the queue in front of a flow: order, cost, cancellation, and end."""

import asyncio
import threading

import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.entry.submitter import Submitter
from modelflow.serve.options import ServeOptions
from modelflow.serve.requests.model import Terms
from modelflow.serve.requests.served_model import ServedModel
from modelflow.wire.problem import Code, Problem

ROWS = 8


class Held:
    """A flow whose unit blocks in its call until release; the queue holds two requests."""

    def __init__(self):
        self.entered, self.go, self.seen = threading.Semaphore(0), threading.Event(), []

        @modelflow.flowunit(name="wait", batched=True)
        def wait(items):
            self.seen.extend(items)
            self.entered.release()
            self.go.wait()
            return items

        graph = (
            "digraph { input [type=input] wait [queue_size=16, batch_size=8, threads=1] "
            "output [type=output] input -> wait -> output }"
        )
        self.flow = modelflow.Flow(graph, units=[wait])


class Asked:
    """A model on the loop of a test, and the calls that the model has answered."""

    def __init__(self, flow):
        self.model = ServedModel(
            "m", 1, flow, LoopQueue(asyncio.get_running_loop()), ServeOptions()
        )
        self.answered = []

    def send(self, *values, deadline=None):
        return self.model.send({"input": list(values)}, self.answered.append, Terms(deadline))

    async def all(self):
        while self.model.admission.under_way > 0:
            await asyncio.sleep(0)
        return self.answered


def values(call):
    return [buffer.data for buffer in call.buffers()["output"]]


async def block(held, asked):
    """Sends a request on which the unit blocks, and waits until the call has begun."""
    asked.send(*[-1] * ROWS)
    await asyncio.sleep(0)
    await asyncio.to_thread(held.entered.acquire)


@pytest.mark.parametrize("waiting", [4, 64, 256])
def test_buffers_are_made_of_requests_that_go_in_and_of_the_next_one(waiting, monkeypatch):
    made = []
    init = Buffer.__init__

    def counting(buffer, *values):
        made.append(buffer)
        init(buffer, *values)

    async def ask(held):
        asked = Asked(held.flow)
        await block(held, asked)
        with monkeypatch.context() as patch:
            patch.setattr(Buffer, "__init__", counting)
            for number in range(waiting):
                asked.send(*[number] * ROWS)
            await asyncio.sleep(0)
            assert len(made) == 3 * ROWS  # two have found room, and a third waits for room
            made.clear()
            held.go.set()
            answered = await asked.all()
        assert [values(call)[0] for call in answered] == [-1, *range(waiting)]
        # One buffer for each row that enters, and one for each row that leaves the unit.
        assert len(made) <= 2 * ROWS * waiting

    held = Held()
    with held.flow:
        asyncio.run(ask(held))


def test_requests_of_one_row_and_of_several_go_in_as_they_came():
    sent = [[place] * (1 if place % 3 else ROWS) for place in range(64)]

    async def ask(held):
        asked = Asked(held.flow)
        await block(held, asked)
        for given in sent:
            asked.send(*given)
        await asyncio.sleep(0)
        held.go.set()
        answered = await asked.all()
        assert sorted(map(values, answered[1:])) == sent

    held = Held()
    with held.flow:
        asyncio.run(ask(held))
    assert held.seen == [-1] * ROWS + [value for given in sent for value in given]


def test_one_that_is_given_up_while_it_waits_never_goes_in_and_holds_up_nobody():
    async def ask(held):
        asked = Asked(held.flow)
        await block(held, asked)
        calls = [asked.send(*[number] * ROWS) for number in range(5)]
        await asyncio.sleep(0)
        for gone in (2, 3):  # the first waiting request, and a later one
            calls[gone].cancel()
        assert asked.model.admission.under_way == 4
        held.go.set()
        answered = await asked.all()
        assert answered[1:] == [calls[0], calls[1], calls[4]]

    held = Held()
    with held.flow:
        asyncio.run(ask(held))
    assert set(held.seen) == {-1, 0, 1, 4}


def test_one_whose_time_ends_while_it_waits_is_answered_so_and_is_not_worked_on():
    async def ask(held):
        asked = Asked(held.flow)
        await block(held, asked)
        first, second = asked.send(*[0] * ROWS), asked.send(*[1] * ROWS)
        late, last = asked.send(*[2] * ROWS, deadline=-1.0), asked.send(*[3] * ROWS)
        await asyncio.sleep(0)
        held.go.set()
        await asked.all()
        assert [values(call)[0] for call in (first, second, last)] == [0, 1, 3]
        with pytest.raises(Problem) as caught:
            late.buffers()
        assert caught.value.code is Code.DEADLINE_EXCEEDED

    held = Held()
    with held.flow:
        asyncio.run(ask(held))
    assert 2 not in held.seen


@pytest.mark.parametrize("is_room_taken", [False, True])
def test_those_that_wait_are_each_told_once_when_the_flow_ends(is_room_taken, monkeypatch):
    if is_room_taken:  # the queue had room for all when it was checked, and then has none
        monkeypatch.setattr(Submitter, "count_fitting", lambda _, columns: (len([*columns]), None))

    async def ask(held):
        asked = Asked(held.flow)
        await block(held, asked)
        calls = [asked.send(*[number] * ROWS) for number in range(8)]
        await asyncio.sleep(0)
        stopping = asyncio.create_task(asyncio.to_thread(held.flow.stop, drain=False))
        answered = await asked.all()
        held.go.set()
        await stopping
        assert sorted(map(id, answered[1:])) == sorted(map(id, calls))
        assert asked.model.admission.under_way == 0
        for call in calls[2:]:
            with pytest.raises(Problem) as caught:
                call.buffers()
            assert caught.value.code is Code.UNAVAILABLE

    held = Held()
    with held.flow:
        asyncio.run(ask(held))
