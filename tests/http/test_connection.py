"""One connection: requests in, answers out, in order, within bounds."""

import contextlib
import socket
import threading

import pytest

from modelflow.http.options import ConnectionLimits, Endpoint
from modelflow.http.server import Server, bind_socket
from tests.http.clients import Echo, answer, is_ended, request, serving


def test_a_client_that_owes_many_answers_is_not_read_until_it_has_them():
    with serving(handler := Echo()) as connect, connect() as client:
        for number in range(40):
            client.sendall(request(f"/held/{number}"))
        for _ in range(17):
            assert handler.came.acquire(timeout=60)
        for number in range(40):
            while f"/held/{number}" not in handler.held:
                assert handler.came.acquire(timeout=60)
            handler.let_go(f"/held/{number}", b"%d" % number)
            assert answer(client)[2] == b"%d" % number


@pytest.mark.parametrize(
    ("version", "headers", "stays"),
    [
        ("1.1", (), True),
        ("1.1", ("Connection: close",), False),
        ("1.0", (), False),
        ("1.0", ("Connection: keep-alive",), True),
    ],
)
def test_the_connection_stays_open_as_the_client_wants_it(version, headers, stays):
    with serving(Echo()) as connect, connect() as client:
        client.sendall(request("/", b"x", *headers, version=version))
        status, given, body = answer(client)
        assert (status, body) == (200, b"x")
        assert given.get("connection") == (
            ("keep-alive" if version == "1.0" else None) if stays else "close"
        )
        if stays:
            client.sendall(request("/", b"y", *headers, version=version))
            assert answer(client)[2] == b"y"
        else:
            assert is_ended(client)


@pytest.mark.parametrize("size", [100, 200_000])
def test_a_refused_request_does_not_lose_its_answer_whatever_is_sent_behind(size):
    with serving(Echo()) as connect, connect() as client:
        client.sendall(request("/refused", b"x" * size))
        status, headers, _ = answer(client)
        assert status == 404
        if size == 100:
            client.sendall(request("/", b"next"))
            assert answer(client)[2] == b"next"
        else:
            assert headers["connection"] == "close"


def test_bodies_that_do_not_fit_beside_one_another_are_refused():
    with serving(Echo(budget=10)) as connect, connect() as one, connect() as other:
        one.sendall(request("/held/1", b"x" * 8))
        one.sendall(request("/", b""))
        other.sendall(request("/", b"x" * 8))
        assert answer(other)[0] == 503


@pytest.mark.parametrize("end", [socket.SHUT_WR, None])
def test_what_works_on_a_request_is_told_that_who_asked_has_gone(end):
    with serving(handler := Echo()) as connect:
        with connect() as client:
            client.sendall(request("/held/1", b"x"))
            assert handler.came.acquire(timeout=60)
            # a client that shuts down one side looks like a client that has gone
            if end is not None:
                client.shutdown(end)
        assert handler.left.acquire(timeout=60)
        assert handler.gone == ["/held/1"]
        handler.let_go("/held/1")  # too late: the reply is dropped
        with connect() as client:
            client.sendall(request("/", b"y"))
            assert answer(client)[2] == b"y"
        assert handler.budget.taken == 0


def test_half_a_request_and_then_nothing_is_nobodys():
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/", b"x" * 10)[:-5])
        client.shutdown(socket.SHUT_WR)
        assert is_ended(client)
        assert handler.budget.taken == 0


def test_a_body_that_does_not_come_is_given_up():
    with serving(handler := Echo(time_out=0.05)) as connect, connect() as client:
        client.sendall(request("/", b"x" * 10)[:-5])
        status, _, body = answer(client)
        assert status == 408
        assert b"did not arrive within 0.05 s" in body
        assert handler.budget.taken == 0


def test_a_connection_that_rests_too_long_is_ended():
    with serving(Echo(), keepalive=0.05) as connect, connect() as client:
        client.sendall(request("/", b"x"))
        assert answer(client)[2] == b"x"
        assert is_ended(client)


def test_a_mistake_of_whoever_answers_is_logged_and_told_in_its_turn(caplog):
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/held/1") + request("/broken", b"x"))
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/1")
        assert [answer(client)[0] for _ in range(2)] == [200, 500]
        assert is_ended(client)
        assert handler.budget.taken == 0
    assert "ZeroDivisionError" in caplog.text


def test_a_request_on_the_way_when_the_server_ends_is_answered_as_the_last(monkeypatch):
    """Tests a client that was just answered, and sends again before any news of the end."""
    monkeypatch.setattr("modelflow.http.connection._GRACE_SECONDS", 60.0)
    with contextlib.closing(bind_socket(Endpoint("127.0.0.1", 0))) as bound:
        address = bound.getsockname()
        server = Server(bound, Echo(), ConnectionLimits())
    ending = threading.Thread(target=server.close, args=(60.0,))
    try:
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(3)
            ]
            for client in clients:
                client.sendall(request("/", b"x"))
                assert "connection" not in answer(client)[1]
            ending.start()
            with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
                while True:
                    socket.create_connection(address, timeout=60).close()
            for client in clients:
                client.sendall(request("/", b"y"))
                status, headers, body = answer(client)
                assert (status, headers["connection"], body) == (200, "close", b"y")
                assert is_ended(client)
    finally:
        server.close(0.0)
        ending.join()


def test_a_client_that_does_not_take_its_answer_loses_the_connection():
    with serving(handler := Echo(), keepalive=0.05) as connect, connect() as client:
        client.sendall(request("/held/0") + request("/held/1"))
        for _ in range(2):
            assert handler.came.acquire(timeout=60)
        handler.let_go("/held/0", bytes(1 << 25))  # more than the system buffers
        assert handler.left.acquire(timeout=60)
        assert handler.gone == ["/held/1"]


@pytest.mark.parametrize("headers", [(), ("Connection: close",)])
def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(headers):
    size = 1 << 24
    with serving(handler := Echo(), keepalive=1.0) as connect, connect() as client:
        client.sendall(request("/held", b"", *headers))
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held", bytes(size))
        pause, taken = threading.Event(), 0
        while taken < size:
            pause.wait(0.03)  # in total, longer than a connection may be idle
            part = client.recv(1 << 18)
            assert part
            taken += len(part)
