"""Tests of the time limits of replies."""

import asyncio
import time

from modelflow.http.listener import ReplyTimeouts


def run(seconds, use):
    """Calls ``use(patience, given_up)`` on a loop; returns the names of the requests given up."""
    given_up = []

    async def main():
        done = asyncio.get_running_loop().create_future()

        def give_up(name):
            given_up.append(name)
            if name == "last":
                done.set_result(None)

        use(ReplyTimeouts(seconds, give_up))
        await done

    asyncio.run(main())
    return given_up


def test_those_who_wait_give_up_in_the_order_in_which_they_came():
    def use(patience):
        for name in ("first", "second", "last"):
            patience.add(name)

    assert run(0.01, use) == ["first", "second", "last"]


def test_who_is_answered_does_not_give_up():
    def use(patience):
        for name in ("first", "second", "last"):
            patience.add(name)
        patience.forget("first")
        patience.forget("first")

    assert run(0.01, use) == ["second", "last"]


def test_those_who_come_one_after_the_other_share_a_timer_and_wait_their_own_time(
    monkeypatch,
):
    looks = []

    async def main():
        loop = asyncio.get_running_loop()
        call_later, given_up = loop.call_later, loop.create_future()

        def note(delay, *what):
            looks.append(delay)
            return call_later(delay, *what)

        monkeypatch.setattr(loop, "call_later", note)
        patience = ReplyTimeouts(0.05, given_up.set_result)
        for number in range(100):
            patience.add(number)
            patience.forget(number)
        assert looks == [0.05]
        began = time.monotonic()
        patience.add("last")
        assert await given_up == "last"
        assert time.monotonic() - began >= 0.05

    asyncio.run(main())
