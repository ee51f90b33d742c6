"""Tests of the answers that clients get while no process serves."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading

import pytest

from modelflow.http.server import server_context
from modelflow.serve.processes.supervisor.acceptor import UnavailableResponder
from tests.serve.certificates import Authority


@contextlib.contextmanager
def nobody(tls=None):
    """Yields the address of a port with no process behind the responder."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def serve():
        responder = UnavailableResponder(tls)
        loop.add_reader(listening, lambda: responder.take(listening.accept()[0]))
        await ended.wait()
        loop.remove_reader(listening)
        responder.close()
        for _ in range(5):  # turns of the loop in which finished answers close their connections
            await asyncio.sleep(0)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
        listening.close()


@pytest.fixture
def address():
    with nobody() as found:
        yield found


def ask(address, method, path, body=None):
    host, port = address
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request(method, path, body)
    response = connection.getresponse()
    found = response.status, response.getheader("Retry-After"), response.read()
    connection.close()
    return found


@pytest.mark.parametrize("path", ["/livez", "/v2/health/live", "/livez?x=1"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_server_lives(address, method, path):
    assert ask(address, method, path) == (200, None, b"")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/readyz", None),
        ("POST", "/v1/models/m:predict", b"{}"),
        ("POST", "/v1/models/m:predict", b"x" * 1_000_000),
        ("POST", "/livez", b""),
    ],
)
def test_all_else_is_refused_for_now(address, method, path, body):
    status, after, text = ask(address, method, path, body)
    assert (status, after) == (503, "1")
    assert json.loads(text)["error"].endswith("try again")


def test_what_is_no_request_is_answered_too(address):
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(b"\x16\x03\x01 no request\r\n\r\n")
        assert client.makefile("rb").readline() == b"HTTP/1.1 503 Service Unavailable\r\n"


def test_a_request_whose_head_has_no_end_is_answered_too(address):
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 200_000)
        assert client.makefile("rb").readline() == b"HTTP/1.1 503 Service Unavailable\r\n"


def test_clients_with_tls_are_answered_and_others_there_are_let_go(tmp_path):
    authority = Authority(tmp_path / "ca")
    with nobody(server_context(authority.options())) as (host, port):
        with socket.create_connection((host, port), timeout=60) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"503" not in plain.makefile("rb").read()
        context = authority.client()
        connection = http.client.HTTPSConnection(host, port, context=context, timeout=60)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 503
        connection.close()
