"""Calls from other threads to a loop's, with one wake-up."""

import asyncio
from functools import partial

from modelflow.ipc.loop_queue import LoopQueue


class CountingLoop:
    """Records the calls that are due soon."""

    def __init__(self):
        self.due, self.errors = [], []

    def call_soon_threadsafe(self, call):
        self.due.append(call)

    def call_exception_handler(self, context):
        self.errors.append(context["exception"])


def test_many_calls_wake_the_loop_once():
    loop, made = CountingLoop(), []
    loop_queue = LoopQueue(loop)
    for number in range(3):
        assert loop_queue.post(partial(made.append, number))
    assert len(loop.due) == 1
    loop.due.pop()()
    assert made == [0, 1, 2]
    loop_queue.post(lambda: made.append(3))
    assert len(loop.due) == 1


def test_a_call_that_raises_leaves_the_others_alone():
    loop, made = CountingLoop(), []
    loop_queue = LoopQueue(loop)
    loop_queue.post(lambda: 1 / 0)
    loop_queue.post(lambda: made.append(1))
    loop.due.pop()()
    assert made == [1]
    assert [type(error) for error in loop.errors] == [ZeroDivisionError]


def test_what_a_call_posts_is_called_too():
    loop, made = CountingLoop(), []
    loop_queue = LoopQueue(loop)
    loop_queue.post(lambda: loop_queue.post(lambda: made.append(1)))
    while loop.due:
        loop.due.pop()()
    assert made == [1]


def test_a_loop_that_has_ended_is_told_of():
    loop = asyncio.new_event_loop()
    loop.close()
    assert not LoopQueue(loop).post(lambda: None)
