"""Tests of other services on the loop of an HTTP server."""

import asyncio
import threading

import pytest

from modelflow.http.options import ConnectionLimits, Endpoint
from modelflow.http.server import Server, bind_socket


class Guest:
    def __init__(self, error=None):
        self.error, self.told = error, []

    async def start(self):
        if self.error is not None:
            raise self.error
        self.told.append(("starts", threading.current_thread().name))

    async def close(self, seconds):
        self.told.append(("ends", seconds))


@pytest.fixture
def server():
    with bind_socket(Endpoint("127.0.0.1", 0)) as bound:
        running = Server(bound, None, ConnectionLimits())
    yield running
    running.close(0.0)


def test_a_guest_starts_on_the_servers_thread_and_ends_with_it(server):
    guest = Guest()
    server.invite(guest)
    ((_, thread),) = guest.told
    assert thread.startswith("modelflow/http/")
    server.close(2.5)
    assert guest.told[1:] == [("ends", 2.5)]


def test_a_guest_that_cannot_start_says_why_and_is_not_ended(server):
    guest = Guest(OSError("in use"))
    with pytest.raises(OSError, match="in use"):
        server.invite(guest)
    server.close(0.0)
    assert guest.told == []


def test_a_close_that_comes_when_all_has_ended_hastens_nothing(server):
    guest = Guest()
    server.invite(guest)

    async def last():
        server.end_within(0.0)
        for _ in range(5):
            await asyncio.sleep(0)

    server.last = last
    server.close(2.5)
    assert guest.told[1:] == [("ends", 2.5)]
