"""One connection: requests in, answers out, in order, within bounds."""

import socket

import pytest

from tests.http.clients import Echo, answer, is_ended, request, serving


def test_requests_that_come_at_once_are_answered_in_order():
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/held/a") + request("/", b"b") + request("/held/c"))
        assert handler.came.acquire(timeout=60)
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/c", b"c")
        handler.let_go("/held/a", b"a")
        assert [answer(client)[2] for _ in range(3)] == [b"a", b"b", b"c"]


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


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_request_may_come_in_pieces(size):
    body = bytes(range(256)) * 40
    whole = request("/", body)
    with serving(Echo()) as connect, connect() as client:
        for start in range(0, len(whole), size if size > 1 else 97):
            client.sendall(whole[start : start + (size if size > 1 else 97)])
        assert answer(client)[2] == body


def test_a_chunked_body_is_put_together():
    parts = [b"a" * 10, b"b" * 3000, b"c"]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(Echo()) as connect, connect() as client:
        client.sendall(head + chunks)
        assert answer(client)[2] == b"".join(parts)
        client.sendall(head)
        for byte in chunks:  # byte by byte
            client.sendall(bytes([byte]))
        assert answer(client)[2] == b"".join(parts)


def test_a_head_request_is_answered_without_a_body():
    with serving(Echo()) as connect, connect() as client:
        client.sendall(request("/", method="HEAD") + request("/", b"next"))
        status, headers, _ = answer(client, "HEAD")
        assert (status, headers["content-length"]) == (200, "0")
        assert answer(client)[2] == b"next"


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


def test_who_asks_whether_to_send_the_body_is_told_to():
    with serving(Echo(most=10)) as connect, connect() as client:
        client.sendall(request("/", b"x" * 5, "Expect: 100-continue")[:-5])
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"12345")
        assert answer(client)[2] == b"12345"
        client.sendall(request("/", b"x" * 50, "Expect: 100-continue")[:-50])
        assert answer(client)[0] == 413


def test_an_offer_of_another_protocol_is_answered_as_the_request_that_it_is():
    with serving(Echo()) as connect, connect() as client:
        offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        client.sendall(request("/", b"", *offer, method="GET") + request("/", b"next"))
        assert answer(client)[0] == 200
        assert answer(client)[2] == b"next"


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


def test_a_body_that_is_announced_too_long_is_refused_before_it_comes():
    with serving(Echo(most=10)) as connect, connect() as client:
        client.sendall(request("/", b"x" * 100_000)[:100])
        status, headers, body = answer(client)
        assert (status, headers["connection"]) == (413, "close")
        assert b"more than 10 bytes" in body


def test_a_chunked_body_is_refused_when_it_is_too_long():
    with serving(handler := Echo(most=10)) as connect, connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(b"8\r\n12345678\r\n8\r\n12345678\r\n")
        assert answer(client)[0] == 413
        assert handler.budget._taken == 0


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
            if end is not None:  # whoever ends his side alone cannot be told from one who has gone
                client.shutdown(end)
        assert handler.left.acquire(timeout=60)
        assert handler.gone == ["/held/1"]
        handler.let_go("/held/1")  # too late: it is dropped
        with connect() as client:
            client.sendall(request("/", b"y"))
            assert answer(client)[2] == b"y"
        assert handler.budget._taken == 0


def test_half_a_request_and_then_nothing_is_nobodys():
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/", b"x" * 10)[:-5])
        client.shutdown(socket.SHUT_WR)
        assert is_ended(client)
        assert handler.budget._taken == 0


def test_a_body_that_does_not_come_is_given_up():
    with serving(handler := Echo(time_out=0.05)) as connect, connect() as client:
        client.sendall(request("/", b"x" * 10)[:-5])
        status, _, body = answer(client)
        assert status == 408
        assert b"not there within 0.05 s" in body
        assert handler.budget._taken == 0


def test_a_connection_that_rests_too_long_is_ended():
    with serving(Echo(), keepalive=0.05) as connect, connect() as client:
        client.sendall(request("/", b"x"))
        assert answer(client)[2] == b"x"
        assert is_ended(client)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["tls", "length", "lengths", "both", "chunk", "version", "http2"],
)
def test_what_is_no_request_is_refused_and_harms_nobody(sent):
    with serving(handler := Echo()) as connect:
        with connect() as client:
            client.sendall(sent)
            assert answer(client)[0] == 400
            assert is_ended(client)
        with connect() as client:
            client.sendall(request("/", b"fine"))
            assert answer(client)[2] == b"fine"
        assert handler.budget._taken == 0


def test_a_big_answer_arrives_although_nobody_reads_it_at_first():
    big = bytes(8 << 20)
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/held/1") + request("/", b"next"))
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/1", big)
        assert len(answer(client)[2]) == len(big)
        assert answer(client)[2] == b"next"


def test_a_mistake_of_whoever_answers_is_logged_and_told_in_its_turn(caplog):
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/held/1") + request("/broken", b"x"))
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/1")
        assert [answer(client)[0] for _ in range(2)] == [200, 500]
        assert is_ended(client)
        assert handler.budget._taken == 0
    assert "ZeroDivisionError" in caplog.text
