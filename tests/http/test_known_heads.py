"""Heads that were read before: what comes, in any pieces, means what it meant without them."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.http import known_heads
from modelflow.http.body import BodyBudget, BodyLimits, RefusedError
from modelflow.http.connection import Connection
from modelflow.http.connections import Connections
from modelflow.http.known_heads import KnownHeads
from modelflow.http.limits import ConnectionLimits
from modelflow.http.mailbox import Mailbox
from modelflow.http.reply import Reply
from modelflow.http.request_head import RequestHead
from tests.http.clients import request


class Handler:
    """Answers each request at once, and keeps what it was."""

    def __init__(self):
        self.seen = []
        self.budget = BodyBudget(1 << 20)
        self.refusal = self.error = None

    def begin(self, exchange):
        if self.refusal is not None:
            raise RefusedError(self.refusal)
        if self.error is not None:
            raise self.error
        return BodyLimits(1000, self.budget, 30.0)

    def handle(self, exchange):
        head = exchange.head
        self.seen.append((head.method, head.target, head.headers, exchange.body))
        self.budget.give_back(len(exchange.body))
        exchange.answer(Reply(200, exchange.body, {}))


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written, self.is_closed = b"", False

    def get_extra_info(self, name, default=None):
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    def can_write_eof(self):
        return False

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Peer:
    """A connection without a network: what it is given, and what became of that."""

    def __init__(self, heads=None, limits=None):
        self.handler, self.transport = Handler(), Transport()
        self._loop = asyncio.get_running_loop()
        self.all = Connections(limits or ConnectionLimits(), Mailbox(self._loop))
        if heads is not None:
            self.all.heads = heads
        self.connection = Connection(self.all, self.handler)
        self.connection.connection_made(self.transport)

    def send(self, *pieces):
        for piece in pieces:
            if not self.transport.is_closed:
                self.connection.data_received(piece)
        return self.handler.seen

    def lose(self):
        self.connection.connection_lost(None)


class NoHeads(KnownHeads):
    """Knows none."""

    def find(self, message):
        return None


class Counting(KnownHeads):
    """Counts those that it knew."""

    def __init__(self):
        super().__init__()
        self.found = 0

    def find(self, message):
        found = super().find(message)
        self.found += found is not None
        return found


def in_loop(test):
    """Runs a test on an event loop."""

    async def run():
        return test()

    return asyncio.run(run())


def test_from_the_third_request_on_a_head_is_not_read_again():
    def test():
        peer = Peer(heads := Counting())
        for number in range(5):
            peer.send(request("/path?a=b", b"%d" % number, "X-Name: value"))
        peer.lose()
        return heads.found, peer.handler.seen, peer.transport.written

    found, seen, written = in_loop(test)
    assert found == 3
    assert [body for *_, body in seen] == [b"0", b"1", b"2", b"3", b"4"]
    assert len({(method, target, tuple(headers)) for method, target, headers, _ in seen}) == 1
    assert written.count(b"HTTP/1.1 200") == 5


MESSAGES = (
    request("/", b"one"),
    request("/", b"two"),
    request("/", b"longer"),
    request("/", b"", method="GET"),
    request("/else", b"one", "A: b"),
    request("/", b"old", version="1.0"),
    request("/", b"old", "Connection: keep-alive", version="1.0"),
    request("/", b"last", "Connection: close"),
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n",
    b"GET /",
    b"no request",
)


@given(st.data())
def test_any_pieces_of_any_requests_mean_the_same_as_where_every_head_is_read(data):
    messages = data.draw(st.lists(st.sampled_from(MESSAGES), max_size=12))
    stream = b"".join(messages)
    edges, at = {0}, 0
    for message in messages:  # mostly whole messages, which are what is looked up
        at += len(message)
        edges.add(at)
    edges |= set(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    edges -= set(data.draw(st.lists(st.sampled_from(sorted(edges)), max_size=4)))
    cuts = sorted(edges | {0, len(stream)})
    pieces = [stream[one:other] for one, other in itertools.pairwise(cuts)]

    def test():
        found = []
        for heads in (KnownHeads(), NoHeads()):
            peer = Peer(heads)
            for message in MESSAGES:  # known from elsewhere, where they can be
                other = Peer(heads)
                other.send(message, message)
                other.lose()
            peer.send(*pieces)
            peer.lose()
            answers = [
                part for part in peer.transport.written.split(b"\r\n") if b"date:" not in part
            ]
            found.append((peer.handler.seen, peer.transport.is_closed, answers))
        return found

    known, read = in_loop(test)
    assert known == read


def test_a_known_head_that_stands_in_the_value_of_a_header_is_no_request():
    def test():
        peer = Peer(KnownHeads())
        inner = request("/inner", b"in")
        peer.send(inner, inner, inner)
        peer.handler.seen.clear()
        peer.send(b"POST /outer HTTP/1.1\r\nHost: x\r\nA: ", inner)
        seen = list(peer.handler.seen)
        peer.lose()
        return seen

    ((_, target, headers, body),) = in_loop(test)
    assert (target, body) == ("/outer", b"in")
    assert dict(headers)[b"a"].startswith(b"POST /inner")


def test_a_head_that_differs_each_time_is_not_kept():
    def test():
        peer = Peer(heads := KnownHeads())
        for number in range(20):
            peer.send(request("/", b"x", f"X-Request-Id: {number}"))
        peer.lose()
        return heads

    assert not in_loop(test).known


def test_the_heads_that_are_kept_are_bounded():
    heads = KnownHeads()
    for number in range(3 * known_heads._MOST):
        head = b"GET /%d HTTP/1.1\r\n\r\n" % number
        heads.learn(head, RequestHead("GET", f"/{number}"), 0)
        assert heads.find(head) is not None
        assert len(heads.known) <= known_heads._MOST
    long = b"GET / HTTP/1.1\r\nA: " + b"a" * known_heads.LONGEST + b"\r\n\r\n"
    heads.learn(long, RequestHead("GET", "/"), 0)
    assert heads.find(long) is None


def test_a_known_request_is_refused_as_any_other_and_the_connection_goes_on():
    def test():
        peer = Peer()
        message = request("/", b"x")
        peer.send(message, message, message)
        peer.handler.refusal = Reply(503, b"full", {})
        peer.send(message)
        peer.handler.refusal = None
        peer.send(message)
        taken = peer.handler.budget._taken
        peer.lose()
        return len(peer.handler.seen), peer.transport.written, taken

    seen, written, taken = in_loop(test)
    assert (seen, taken) == (4, 0)
    assert [written.count(b"HTTP/1.1 %d" % status) for status in (200, 503)] == [4, 1]


def test_where_whoever_answers_raises_a_known_request_is_answered_500_and_is_the_last(caplog):
    def test():
        peer = Peer()
        message = request("/", b"x")
        peer.send(message, message, message)
        peer.handler.error = ZeroDivisionError("a mistake")
        peer.send(message)
        closed = peer.transport.is_closed
        peer.lose()
        return peer.transport.written, closed

    written, closed = in_loop(test)
    assert written.count(b"HTTP/1.1 500") == 1
    assert closed
    assert "a mistake" in caplog.text


@pytest.mark.parametrize("most", [1, 3, 5])
def test_known_requests_count_towards_those_that_a_connection_may_have(most):
    def test():
        peer = Peer(limits=ConnectionLimits(requests=most))
        message = request("/", b"x")
        peer.send(*[message] * 8)
        peer.lose()
        return len(peer.handler.seen), peer.transport.is_closed

    assert in_loop(test) == (most, True)
