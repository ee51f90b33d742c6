"""Tests of TLS handshakes, on both event loops."""

import asyncio
import contextlib
import socket
import ssl

import pytest
import uvloop

from modelflow.http import server as server_module
from modelflow.http.options import ConnectionLimits, Endpoint
from modelflow.http.server import Server, bind_socket, server_context
from tests.http.clients import Echo, answer, is_ended, request
from tests.serve.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def serving(request, monkeypatch, authority):
    """Serves on each of the loops; yields two functions that connect, without and with TLS."""
    monkeypatch.setattr(server_module, "new_loop", request.param)

    @contextlib.contextmanager
    def run(**limits):
        with contextlib.closing(bind_socket(Endpoint("127.0.0.1", 0))) as bound:
            tls = server_context(authority.options())
            server = Server(bound, Echo(), ConnectionLimits(**limits), tls)
            address = bound.getsockname()

            def plain():
                return socket.create_connection(address, timeout=60)

            def safe():
                return authority.client().wrap_socket(plain(), server_hostname="127.0.0.1")

            try:
                yield plain, safe
            finally:
                server.close(1.0)

    return run


def test_what_comes_with_the_end_of_the_handshake_is_heard(serving):
    with serving() as (_, safe):
        for _ in range(20):
            with safe() as client:
                client.sendall(request("/", b"text"))
                assert answer(client)[::2] == (200, b"text")


def test_who_says_nothing_makes_room_for_who_comes_later(serving):
    with serving(connections=2, per_client=2) as (plain, safe), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(plain()) for _ in range(6)]
        with safe() as client:
            client.sendall(request("/", b"text"))
            assert answer(client)[0] == 200
            assert all(is_ended(one) for one in silent[:4])


def test_who_has_no_room_is_closed(serving):
    with serving(connections=1, per_client=1) as (plain, safe), safe() as first:
        first.sendall(b"POST /held HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.1 100"
        with plain() as second:
            assert is_ended(second)
        first.sendall(b"hello")


def test_a_handshake_has_its_time(serving):
    with serving(header_time_out=0.1) as (plain, _), plain() as client:
        assert is_ended(client)


def test_a_stop_ends_those_that_shake_hands(serving):
    with contextlib.ExitStack() as clients:
        with serving() as (plain, safe):
            silent = [clients.enter_context(plain()) for _ in range(3)]
            with safe() as client:  # queued behind them, which shows that they were accepted
                client.sendall(request("/", b"text"))
                assert answer(client)[0] == 200
        assert all(is_ended(one) for one in silent)


def test_a_client_that_does_not_trust_the_certificate_costs_nothing(serving):
    with serving() as (plain, safe):
        strange = ssl.create_default_context()
        with plain() as client, pytest.raises(ssl.SSLCertVerificationError):
            strange.wrap_socket(client, server_hostname="127.0.0.1")
        with safe() as client:
            client.sendall(request("/", b"text"))
            assert answer(client)[0] == 200
