"""Tests of the acceptor: which process receives a connection."""

import asyncio
import contextlib
import errno
import select
import socket

from modelflow.http.accept import REPORT
from modelflow.http.options import Endpoint
from modelflow.http.server import bind_socket
from modelflow.serve.processes.supervisor.acceptor import Acceptor, ConnectionHandover


class Behind:
    """A stand-in for a replica that only counts."""

    def __init__(self, acceptor):
        self.acceptor = acceptor
        self.ended = []
        ours, self.sock = socket.socketpair()
        self.sock.setblocking(False)
        self.handover = ConnectionHandover(ours, self._ended)
        self.taken = []

    def _ended(self, handover):
        self.ended.append(handover)
        self.acceptor.forget(handover)

    def take(self):
        """Receives the connections that were passed on; returns the number of all."""
        with contextlib.suppress(BlockingIOError):
            while True:
                said, descriptors, *_ = socket.recv_fds(self.sock, 1, 1)
                if not said:
                    break
                self.taken.append(socket.socket(fileno=descriptors[0]))
        return len(self.taken)

    def report(self, is_open):
        self.sock.send(REPORT.pack(len(self.taken), is_open))

    def close(self):
        self.handover.close()
        self.sock.close()
        for one in self.taken:
            one.close()


class House:
    """An acceptor with replicas and clients."""

    def __init__(self, count):
        bound = bind_socket(Endpoint("127.0.0.1", 0))
        self.address = bound.getsockname()
        self.acceptor = Acceptor(bound)
        self.acceptor.listen()
        self.replicas = [Behind(self.acceptor) for _ in range(count)]
        self.clients = []

    async def connect(self, count):
        for _ in range(count):
            self.clients.append(socket.create_connection(self.address, timeout=60))

    async def until(self, is_so):
        while not is_so():
            await asyncio.sleep(0)

    def close(self):
        self.acceptor.close()
        for one in (*self.replicas, *self.clients):
            one.close()


def run(scene, count=2):
    async def main():
        with contextlib.closing(House(count)) as house:
            await scene(house, *house.replicas)

    asyncio.run(main())


def test_each_connection_goes_to_who_has_the_fewest():
    async def scene(house, one, two):
        for replica in (one, two):
            house.acceptor.add(replica.handover)
        await house.connect(6)
        await house.until(lambda: one.take() + two.take() == 6)
        assert (len(one.taken), len(two.taken)) == (3, 3)
        one.report(3)
        two.report(0)  # all its clients have gone
        await house.until(lambda: two.handover.load == 0)
        await house.connect(3)
        await house.until(lambda: one.take() + two.take() == 9)
        assert (len(one.taken), len(two.taken)) == (3, 6)

    run(scene)


def test_connections_wait_until_there_is_somebody():
    async def scene(house, one):
        await house.connect(3)
        house.acceptor.add(one.handover)
        await house.until(lambda: one.take() == 3)

    run(scene, count=1)


def test_who_takes_nothing_is_not_given_up_and_takes_what_has_waited():
    async def scene(house, one):
        house.acceptor.add(one.handover)
        one.handover._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        await house.connect(12)
        await house.until(lambda: house.acceptor._held is not None)
        assert one.handover.handed < 12
        assert not one.ended
        await house.until(lambda: one.take() == 12)

    run(scene, count=1)


def test_who_has_gone_is_given_nothing_more():
    async def scene(house, one, two):
        house.acceptor.add(one.handover)
        house.acceptor.add(two.handover)
        one.sock.close()
        await house.connect(4)
        await house.until(lambda: two.take() == 4)
        await house.until(lambda: one.ended == [one.handover])

    run(scene)


def test_who_connects_while_the_last_one_goes_is_answered_at_once(monkeypatch):
    monkeypatch.setattr("modelflow.serve.processes.supervisor.acceptor._SECONDS", 1000.0)

    async def scene(house, one):
        house.acceptor.add(one.handover)
        await house.connect(1)
        one.sock.close()  # before the loop has noticed either event
        (client,) = house.clients
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.1 503 ")

    run(scene, count=1)


def test_who_says_that_he_is_done_is_told_that_no_more_comes():
    async def scene(house, one, two):
        house.acceptor.add(one.handover)
        house.acceptor.add(two.handover)
        one.sock.shutdown(socket.SHUT_WR)
        await house.until(lambda: one.ended)
        assert one.sock.recv(1) == b""
        await house.connect(2)
        await house.until(lambda: two.take() == 2)

    run(scene)


def test_what_has_connected_before_the_end_is_handed_over():
    async def scene(house, one, two):
        house.acceptor.add(one.handover)
        house.acceptor.add(two.handover)
        await house.connect(10)  # the loop does not run meanwhile
        house.acceptor.close()
        assert one.take() + two.take() == 10
        assert one.ended
        assert two.ended

    run(scene)


def test_who_connects_while_the_address_is_given_up_is_refused_and_not_reset(monkeypatch):
    async def scene(house, one, _):
        house.acceptor.add(one.handover)
        with socket.socket() as late:
            late.setblocking(False)
            # Called when all connections have been accepted.
            monkeypatch.setattr(
                house.acceptor._nobody, "close", lambda: late.connect_ex(house.address)
            )
            house.acceptor.close()
            select.select([], [late], [], 60)
            assert late.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        assert one.take() == 0

    run(scene)
