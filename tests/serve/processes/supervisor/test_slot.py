"""Tests of a replica's slot, which is kept filled."""

import asyncio

from modelflow.serve.processes.supervisor.child import Slot
from modelflow.serve.processes.supervisor.restart import Backoff


class Process:
    """A replica that ends on request."""

    def __init__(self, number=2):
        self.number = number
        self.failure = None
        self.over = asyncio.Event()

    def end(self):
        self.over.set()

    async def wait_until_ended(self):
        await self.over.wait()
        return 3


def test_one_that_has_ended_is_replaced_until_the_place_is_given_up():
    async def main():
        told = []
        post = Slot("replica 2", Process, Backoff(10.0))

        async def start(process):
            process.over.set()

        def lost(process, code):
            told.append((process.number, code))
            post.give_up()
            return True

        await post.keep(start, lost)
        assert told == [(2, 3)]
        assert post.replica is None

    asyncio.run(main())


def test_one_that_cannot_be_started_is_tried_again(caplog):
    async def main():
        post, tries = Slot("replica 1", Process, Backoff(10.0)), []

        async def start(process):
            tries.append(process)
            if len(tries) == 1:
                raise BlockingIOError(11, "no process can be had")
            process.over.set()

        def lost(_, code):
            return code is None

        await post.keep(start, lost)
        assert len(tries) == 2

    asyncio.run(main())
    assert "replica 1 has not begun (it cannot be started: [Errno 11] no process" in caplog.text
    assert "another takes its place at once" in caplog.text


def test_one_that_starts_while_all_is_ended_ends():
    async def main():
        post = Slot("replica 1", Process, Backoff(10.0))

        async def start(process):
            assert post.replica is None  # nothing can be sent to the replica yet
            post.give_up()

        await post.keep(start, lambda *_: True)

    asyncio.run(main())
