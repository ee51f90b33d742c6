"""Tests of the number of connections, and of the connection that is closed for a new connection."""

import asyncio

from modelflow.http.connections import SPARE, Connections
from modelflow.http.options import ConnectionLimits


class Member:
    def __init__(self, host="a"):
        self.host, self.is_closed, self.is_asked = host, False, False

    def close(self):
        self.is_closed = True

    def end(self):
        self.is_asked = True


def test_the_one_that_has_rested_longest_makes_room():
    connections = Connections(ConnectionLimits(connections=2, per_client=2), None)
    first, second, third = Member(), Member(), Member()
    assert connections.admit(first)
    assert connections.admit(second)
    connections.resting.pop(first)
    connections.rest(first)  # now the second has been idle longest
    assert connections.admit(third)
    assert (first.is_closed, second.is_closed) == (False, True)


def test_there_is_no_room_where_all_work():
    connections = Connections(ConnectionLimits(connections=1), None)
    one = Member()
    assert connections.admit(one)
    connections.resting.pop(one)
    assert not connections.admit(Member())
    connections.forget(one)
    assert connections.admit(Member())


def test_of_one_client_only_his_own_makes_room():
    connections = Connections(ConnectionLimits(connections=10, per_client=1), None)
    other, own = Member("b"), Member("a")
    connections.admit(other)
    connections.admit(own)
    assert connections.admit(Member("a"))
    assert (own.is_closed, other.is_closed) == (True, False)


def test_the_end_waits_until_every_connection_is_over():
    async def main():
        connections = Connections(ConnectionLimits(), None)
        one, other = Member(), Member()
        connections.admit(one)
        connections.admit(other)
        ending = asyncio.ensure_future(connections.wait_until_ended())
        await asyncio.sleep(0)
        assert one.is_asked
        assert other.is_asked
        connections.forget(one)
        connections.forget(one)
        await asyncio.sleep(0)
        assert not ending.done()
        connections.forget(other)
        await ending

    asyncio.run(main())


def test_the_end_of_none_is_at_once():
    asyncio.run(Connections(ConnectionLimits(), None).wait_until_ended())


def test_all_can_be_ended_at_once():
    connections = Connections(ConnectionLimits(), None)
    one = Member()
    connections.admit(one)
    connections.abort()
    assert one.is_closed


def test_connections_beyond_the_limit_are_a_few_and_the_idle_ones_make_room():
    connections = Connections(ConnectionLimits(connections=1), None)
    busy = Member()
    connections.admit(busy)
    connections.resting.pop(busy)
    spare = [Member() for _ in range(SPARE + 1)]
    assert all(map(connections.admit_spare, spare))
    assert [one.is_closed for one in spare] == [True] + [False] * SPARE
    for one in spare[1:]:
        connections.resting.pop(one)
    assert not connections.admit_spare(Member())
    connections.forget(busy)
    assert connections.admit(Member())
