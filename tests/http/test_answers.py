"""Tests of the replies that a connection must send, and of their order."""

from modelflow.http.answers import Answers
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, RequestHead, StreamingReply
from tests.http.clients import Echo, answer, request, serving


def test_requests_that_come_at_once_are_answered_in_order():
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/held/a") + request("/", b"b") + request("/held/c"))
        assert handler.came.acquire(timeout=60)
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/c", b"c")
        handler.let_go("/held/a", b"a")
        assert [answer(client)[2] for _ in range(3)] == [b"a", b"b", b"c"]


def test_a_head_request_is_answered_without_a_body():
    with serving(Echo()) as connect, connect() as client:
        client.sendall(request("/", method="HEAD") + request("/", b"next"))
        status, headers, _ = answer(client, "HEAD")
        assert (status, headers["content-length"]) == (200, "0")
        assert answer(client)[2] == b"next"


def test_a_big_answer_arrives_although_nobody_reads_it_at_first():
    big = bytes(8 << 20)
    with serving(handler := Echo()) as connect, connect() as client:
        client.sendall(request("/held/1") + request("/", b"next"))
        assert handler.came.acquire(timeout=60)
        handler.let_go("/held/1", big)
        assert len(answer(client)[2]) == len(big)
        assert answer(client)[2] == b"next"


class Owed:
    """A connection's replies, and the bytes written so far."""

    def __init__(self, *, is_old=False):
        self.written, self.sent, self.flows = b"", [], {}
        self.answers = Answers(self.write, self.deliver)
        self.answers.is_old = is_old

    def write(self, data):
        self.written += data

    def deliver(self, http_request, data):
        self.written += data
        self.sent.append(http_request.head.target)

    def ask(self, target):
        http_request = HttpRequest(RequestHead("GET", target), "", self.answers.give, None)
        self.answers.owed.append(http_request)
        return http_request

    def stream(self, http_request):
        """Answers with a stream; `flows` receives the stream when the reply may be written."""
        begin = lambda flow: self.flows.update({http_request.head.target: flow})  # noqa: E731
        http_request.answer(StreamingReply(200, begin))


def test_what_is_behind_a_stream_waits_for_its_end():
    owed = Owed()
    first, second = owed.ask("/1"), owed.ask("/2")
    owed.stream(first)
    second.answer(Reply(200, b"whole"))
    owed.flows["/1"].send(b"part")
    assert (len(owed.answers.owed), owed.sent, b"whole" in owed.written) == (2, [], False)
    owed.flows["/1"].end()
    assert (len(owed.answers.owed), owed.sent) == (0, ["/1", "/2"])
    assert owed.written.endswith(b"whole")
    assert b"4\r\npart\r\n0\r\n\r\nHTTP/1.1 200" in owed.written


def test_a_stream_for_an_old_client_is_the_last_answer():
    owed = Owed(is_old=True)
    first = owed.ask("/1")
    owed.stream(first)
    owed.flows["/1"].send(b"part")
    assert owed.answers.last is first
    assert owed.written.endswith(b"\r\n\r\npart")


def test_everybody_is_told_once_that_the_client_has_gone():
    owed, told = Owed(), []
    http_requests = [owed.ask(f"/{number}") for number in range(3)]
    for http_request in http_requests:
        http_request.on_end = lambda target=http_request.head.target: told.append(target)
    owed.stream(http_requests[0])
    owed.stream(http_requests[1])  # never written, as the reply before does not end
    owed.flows["/0"].on_gone = lambda: told.append("stream")
    owed.answers.drop()
    owed.answers.drop()
    assert told == ["/0", "/1", "/2", "stream"]
    assert set(owed.flows) == {"/0", "/1"}
    assert not owed.flows["/1"].has_room


def test_a_stream_has_room_while_the_client_takes_what_it_is_sent():
    owed, asked = Owed(), []
    owed.stream(owed.ask("/1"))
    owed.flows["/1"].on_room = lambda: asked.append(1)
    owed.answers.is_writable = False
    assert not owed.flows["/1"].has_room
    owed.answers.is_writable = True
    owed.answers.go_on()
    assert (owed.flows["/1"].has_room, asked) == (True, [1])
