"""Tests of the server side of a link to another process."""

import asyncio

import pytest

from modelflow.ipc.link import new_link
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.processes.rpc.request_server import RequestServer


class Directory:
    """A directory with a single model, whose requests end when a test calls `done`."""

    def __init__(self):
        self.done = []

    def find(self, _):
        return self

    def add(self, _):
        pass

    remove = add

    def send(self, _, done, __):
        self.done.append(lambda: done(self))
        return self

    def buffers(self):
        return {}

    def cancel(self):
        pass


@pytest.mark.parametrize("way", ["answer", "cancel", "loss"])
def test_the_wait_for_answers_ends_with_the_last_request(way):
    async def run():
        directory, loop_queue = Directory(), LoopQueue(asyncio.get_running_loop())
        server, other = (
            RequestServer(ends, loop_queue, directory, lambda _: None) for ends in new_link()
        )
        await server.wait_until_answered()
        for number in (1, 2):
            server.hear(None, ["send", number, "m", {}, None, None, False, None], None)
        waiting = asyncio.create_task(server.wait_until_answered())
        directory.done[0]()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        if way == "answer":
            directory.done[1]()
        elif way == "cancel":
            server.hear(None, ["cancel", 2], None)
        else:
            server.on_lost(None)
        await waiting
        await asyncio.gather(server.close(), other.close())

    asyncio.run(run())
