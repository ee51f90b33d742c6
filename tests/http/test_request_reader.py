"""Tests of the parsing of bytes into requests."""

import pytest

from tests.http.clients import Echo, answer, is_ended, request, serving


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


def test_who_asks_whether_to_send_the_body_is_told_to():
    with serving(Echo(most=10)) as connect, connect() as client:
        client.sendall(request("/", b"x" * 5, "Expect: 100-continue")[:-5])
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"12345")
        assert answer(client)[2] == b"12345"
        client.sendall(request("/", b"x" * 50, "Expect: 100-continue")[:-50])
        assert answer(client)[0] == 413


def test_who_asks_behind_another_request_is_told_behind_its_answer():
    """Tests that `100 Continue` does not split the reply before, which is sent part by part."""
    with serving(handler := Echo()) as connect, connect() as client:
        behind = request("/", b"x" * 5, "Expect: 100-continue")[:-5]
        client.sendall(request("/held/0") + behind)
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/0", b"first")
        assert answer(client)[2] == b"first"
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"12345")
        assert answer(client)[2] == b"12345"


def test_a_client_of_http_1_0_is_told_nothing_before_its_answer():
    with serving(Echo()) as connect, connect() as client:
        client.sendall(request("/", b"12345", "Expect: 100-continue", version="1.0"))
        assert answer(client)[2] == b"12345"


def test_an_offer_of_another_protocol_is_answered_as_the_request_that_it_is():
    with serving(Echo()) as connect, connect() as client:
        offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        client.sendall(request("/", b"", *offer, method="GET") + request("/", b"next"))
        assert answer(client)[0] == 200
        assert answer(client)[2] == b"next"


def test_offers_of_another_protocol_are_answered_however_many_come_at_once():
    count = 2000
    with serving(Echo()) as connect, connect() as client:
        offer = request("/", b"", "Connection: Upgrade", "Upgrade: h2c", method="GET")
        client.sendall(offer * count)
        assert [answer(client)[0] for _ in range(count)] == [200] * count


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
        assert handler.budget.taken == 0


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
        assert handler.budget.taken == 0


@pytest.mark.parametrize("is_known", [False, True], ids=["new", "known"])
def test_what_is_sent_behind_the_last_request_of_a_connection_is_not_handled(is_known):
    """Tests requests that are sent at once, later, and bytes that are no request."""
    with serving(handler := Echo(), requests=3) as connect:
        for _ in range(3 if is_known else 0):
            with connect() as client:
                for _ in range(2):
                    client.sendall(request("/held/behind"))
                    assert handler.came.acquire(timeout=60)
                    handler.let_go("/held/behind")
                    answer(client)
        with connect() as client:
            client.sendall(request("/") * 2)
            assert [answer(client)[0] for _ in range(2)] == [200, 200]
            client.sendall(request("/held/last") + request("/held/behind", b"x"))
            assert handler.came.acquire(timeout=60)
            client.sendall(request("/held/behind"))
            client.sendall(b"this is no request\r\n\r\n")
            with connect() as other:  # the loop has read all of that before it answers this
                other.sendall(request("/"))
                assert answer(other)[0] == 200
            assert list(handler.held) == ["/held/last"]
            handler.let_go("/held/last")
            status, headers, _ = answer(client)
            assert (status, headers["connection"]) == (200, "close")
            assert is_ended(client)
        assert handler.gone == []


@pytest.mark.parametrize("more", [["Host: x"], ["Host: y"], ["host: z", "HOST: x"]])
def test_a_request_with_several_hosts_is_refused(more):
    with serving(handler := Echo()) as connect, connect() as client:
        for _ in range(3):  # also if the head is cached
            client.sendall(request("/", b"x", *more))
            status, _, body = answer(client)
            assert (status, b"Host headers; expected one" in body) == (400, True)
        client.sendall(request("/", b"fine"))
        assert answer(client)[2] == b"fine"
        assert handler.budget.taken == 0


class Told(Echo):
    """Answers with the request's target and host."""

    def handle(self, http_request):
        head = http_request.head
        hosts = [value for name, value in head.headers if name == b"host"]
        assert [head.named.get(b"host")] == hosts
        http_request.body = b" ".join([head.target.encode(), *hosts])
        super().handle(http_request)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/a?b=http://c", b"/a?b=http://c x"),
        ("http://h/a/b?c=d", b"/a/b?c=d h"),
        ("HTTP://h:80/a", b"/a h:80"),
        ("https://[::1]:443/", b"/ [::1]:443"),
        ("http://h", b"/ h"),
        ("http://h?q", b"/?q h"),
        ("http://user@h/a", b"http://user@h/a x"),
    ],
)
def test_an_absolute_target_is_its_path_at_its_host(target, expected):
    with serving(Told()) as connect, connect() as client:
        for _ in range(3):  # also if the head is cached
            client.sendall(request(target, b""))
            assert answer(client)[2] == expected
