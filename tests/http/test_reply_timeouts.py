"""How long answers are waited for."""

import asyncio

from modelflow.http.listener import ReplyTimeouts


def run(seconds, use):
    """Calls ``use(patience, given_up)`` on a loop; returns what was given up in the end."""
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


def test_no_timer_is_left_when_nobody_waits():
    async def main():
        patience = ReplyTimeouts(3600.0, lambda _: None)
        patience.add("one")
        patience.forget("one")
        assert patience.timer is None

    asyncio.run(main())
