"""Two sides of a link, each on a loop of its own."""

import asyncio
import gc
import os
import socket
import threading

import numpy as np
import pytest

from modelflow.http.server import new_loop
from modelflow.ipc.fd_channel import FdChannel, give
from modelflow.ipc.link import Link, new_link
from modelflow.ipc.loop_queue import LoopQueue


class Heard:
    """Records its messages, and replies with the result of `answer`."""

    def __init__(self, answer=None):
        self.messages = []
        self.answer = answer
        self.link = None
        self.is_lost = asyncio.Event()
        self.news = asyncio.Condition()

    def hear(self, _, message, read):
        self.messages.append([read(one) if isinstance(one, list) else one for one in message])
        if self.answer is not None:
            self.answer(self.link, self.messages[-1])

    def on_lost(self, _):
        self.is_lost.set()

    async def until(self, count):
        while len(self.messages) < count:
            await asyncio.sleep(0)


def run(main):
    loop = new_loop()
    try:
        return loop.run_until_complete(asyncio.wait_for(main(), 60))
    finally:
        loop.close()


def linked(one, other):
    loop_queue = LoopQueue(asyncio.get_running_loop())
    for heard, ends in zip((one, other), new_link(), strict=True):
        heard.link = Link(ends, loop_queue, heard)
        heard.link.begin()
    return one.link, other.link


async def closed(*links):
    for link in links:
        await link.close()


def test_messages_come_in_order_with_arrays_small_and_large():
    arrays = [np.arange(size, dtype=np.float64) for size in (3, 5000, 1 << 20, 9 << 20)]

    async def main():
        one, other = Heard(), Heard()
        here, there = linked(one, other)
        for number, array in enumerate(arrays):
            here.say("n", number, here.value(array))
        await other.until(len(arrays))
        for number, message in enumerate(other.messages):
            assert message[:2] == ["n", number]
            np.testing.assert_array_equal(message[2], arrays[number])
        await closed(here, there)

    run(main)


def test_what_is_said_in_one_turn_is_one_write():
    async def main():
        one, other = Heard(), Heard()
        here, there = linked(one, other)
        here.say("begin")
        await other.until(1)
        writes = []
        write = here._transport.write
        here._transport, kept = type("Counted", (), {"write": writes.append}), here._transport
        for number in range(100):
            here.say("n", number)
        while not writes:
            await asyncio.sleep(0)
        here._transport = kept
        write(*writes)
        await other.until(101)
        assert len(writes) == 1
        await closed(here, there)

    run(main)


def test_slots_come_back_when_nobody_looks_at_them_any_more():
    async def main():
        one, other = Heard(), Heard()
        here, there = linked(one, other)
        for _ in range(3):
            here.say("n", here.value(np.zeros(4 << 20)))  # half of the whole memory
        await other.until(3)
        assert here._packer.memory_writer.taken == 1 + 1
        kept = other.messages.pop()
        other.messages.clear()
        while here._packer.memory_writer.taken > 1:
            await asyncio.sleep(0)
        assert kept[1].sum() == 0
        await closed(here, there)

    run(main)


def test_a_slot_may_be_given_back_by_any_thread():
    async def main():
        one, other = Heard(), Heard()
        here, there = linked(one, other)
        here.say("n", here.value(np.zeros(1 << 20)))
        await other.until(1)
        thread = threading.Thread(target=other.messages.clear)
        thread.start()
        thread.join()
        while here._packer.memory_writer.taken:
            await asyncio.sleep(0)
        await closed(here, there)

    run(main)


def test_a_message_that_cannot_be_taken_costs_no_other(caplog):
    def answer(_, message):
        if message[1] == 1:
            raise ValueError("not this one")

    async def main():
        one, other = Heard(), Heard(answer)
        here, there = linked(one, other)
        for number in range(3):
            here.say("n", number)
        await other.until(3)
        await closed(here, there)

    run(main)
    assert "'n' was not heard" in caplog.text
    assert "not this one" in caplog.text


@pytest.mark.parametrize("is_orderly", [True, False])
def test_the_end_of_one_side_is_told_the_other(is_orderly):
    async def main():
        one, other = Heard(), Heard()
        here, there = linked(one, other)
        here.say("last")
        if is_orderly:
            await here.close()
            await other.until(1)
        else:
            await other.until(1)
            here.abandon()
        await other.is_lost.wait()
        there.say("into the void", there.value(np.zeros(1 << 20)))
        await closed(here, there)

    run(main)


def test_nothing_is_left_open():
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))

    async def main():
        here, there = linked(Heard(), Heard())
        here.say("n", here.value(np.zeros(1 << 20)))
        await closed(here, there)

    run(main)
    gc.collect()  # a received message holds its memory
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_hatch_gives_what_was_put_in():
    async def main():
        ours, theirs = socket.socketpair()
        fd_channel, found = FdChannel(theirs), []
        one, other = new_link()
        give(ours, one, 7)
        fd_channel.open(lambda ends, peer: found.append((ends, peer)))
        while not found:
            await asyncio.sleep(0)
        ((taken, peer),) = found
        assert peer == 7
        sides = [socket.socket(fileno=ends.socket) for ends in (taken, other)]
        sides[0].sendall(b"x")
        assert sides[1].recv(1) == b"x"
        for ends in (taken, other):
            os.close(ends.incoming)
            os.close(ends.outgoing)
        for side in sides:
            side.close()
        ours.close()
        fd_channel.close()
        give(ours, new_link()[0], 0)  # no process receives the message, and nothing is raised

    run(main)
