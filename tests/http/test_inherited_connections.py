"""Tests of connections that another process has accepted, on both event loops."""

import asyncio
import contextlib
import socket

import pytest
import uvloop

from modelflow.http import server as server_module
from modelflow.http.accept import REPORT, InheritedConnections
from modelflow.http.options import ConnectionLimits
from modelflow.http.server import Server, server_context
from tests.http.clients import Echo, answer, is_ended, request
from tests.serve.certificates import Authority


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request, monkeypatch):
    monkeypatch.setattr(server_module, "new_loop", request.param)


class Porter:
    """The other end of the channel that passes connections."""

    def __init__(self, sock):
        self.sock = sock

    def connect(self):
        """Returns a client whose connection is passed to the server."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname(), timeout=60)
            served, _ = listening.accept()
            with served:
                socket.send_fds(self.sock, [b"c"], [served.fileno()])
            return client

    def wait_for(self, taken, is_open):
        """Waits until the reports show these numbers of accepted and open connections."""
        said = None
        while said != (taken, is_open):
            said = REPORT.unpack(self.sock.recv(REPORT.size, socket.MSG_WAITALL))
            assert said[1] <= said[0], "each connection is counted once"


@contextlib.contextmanager
def serving(handler=None, tls=None):
    here, there = socket.socketpair()
    here.settimeout(60)
    limits = ConnectionLimits()
    server = Server(InheritedConnections(there, ("127.0.0.1", 80)), handler or Echo(), limits, tls)
    with here:
        try:
            yield Porter(here), server
        finally:
            here.shutdown(socket.SHUT_WR)
            server.close(1.0)


@pytest.mark.usefixtures("loop")
def test_what_is_handed_over_is_answered_and_counted():
    with serving() as (acceptor, _):
        clients = [acceptor.connect() for _ in range(3)]
        for client in clients:
            client.sendall(request(body=b"hello"))
            assert answer(client)[2] == b"hello"
        acceptor.wait_for(3, 3)
        clients.pop().close()
        acceptor.wait_for(3, 2)
        for client in clients:
            client.close()
        acceptor.wait_for(3, 0)


@pytest.mark.usefixtures("loop")
def test_what_is_on_its_way_at_the_end_is_still_answered():
    handler = Echo()
    with serving(handler) as (acceptor, server), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(acceptor.connect()) for _ in range(20)]
        for client in clients:
            client.sendall(request(body=b"hello"))
        acceptor.sock.shutdown(socket.SHUT_WR)
        server.close(60.0)
        assert [answer(client)[2] for client in clients] == [b"hello"] * 20
        while acceptor.sock.recv(1 << 10):
            pass  # the server has also reported that it accepts nothing more


@pytest.mark.usefixtures("loop")
def test_who_leaves_takes_what_is_handed_over_until_the_other_side_has_heard(monkeypatch):
    with serving() as (acceptor, server), acceptor.connect() as first:
        first.sendall(request())
        assert answer(first)[0] == 200
        server.loop_queue.post(server._is_ending.set)
        while acceptor.sock.recv(1 << 10):
            pass
        with acceptor.connect() as late:
            late.sendall(request(body=b"late"))
            acceptor.sock.shutdown(socket.SHUT_WR)
            assert answer(late)[2] == b"late"
        assert is_ended(first)


@pytest.mark.usefixtures("loop")
def test_tls_is_spoken_through_it(tmp_path):
    authority = Authority(tmp_path / "ca")
    with serving(tls=server_context(authority.options())) as (acceptor, _):
        with authority.client().wrap_socket(acceptor.connect(), server_hostname="127.0.0.1") as one:
            one.sendall(request(body=b"hello"))
            assert answer(one)[2] == b"hello"
        acceptor.wait_for(1, 0)


@pytest.mark.usefixtures("loop")
def test_a_client_that_was_gone_before_it_came_through_costs_nothing():
    with serving() as (acceptor, _):
        for _ in range(5):
            client = acceptor.connect()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()  # at once, with a reset
        acceptor.wait_for(5, 0)
        with acceptor.connect() as client:
            client.sendall(request(body=b"hello"))
            assert answer(client)[2] == b"hello"
