"""Tests that cached heads mean the same as parsed heads, however the bytes are split."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.http import request as request_module
from modelflow.http.connection import Connection
from modelflow.http.connections import Connections
from modelflow.http.options import ConnectionLimits
from modelflow.http.reply import BodyBudget, BodyLimits, RefusedError, Reply
from modelflow.http.request import HeaderCache, RequestHead
from modelflow.ipc.loop_queue import LoopQueue
from tests.http.clients import request


def described(http_request):
    """Returns a request; the order of headers with different names has no meaning."""
    head = http_request.head
    headers = sorted(head.headers, key=lambda pair: pair[0])
    assert {**head.named} == dict(headers)
    return head.method, head.target, headers, http_request.body


class Handler:
    """Answers each request at once, and records the request."""

    def __init__(self):
        self.seen = []
        self.budget = BodyBudget(1 << 20)
        self.refusal = self.error = None

    def begin(self, http_request):
        if self.refusal is not None:
            raise RefusedError(self.refusal)
        if self.error is not None:
            raise self.error
        return BodyLimits(1000, self.budget, 30.0)

    def handle(self, http_request):
        self.seen.append(described(http_request))
        self.budget.give_back(len(http_request.body))
        http_request.answer(Reply(200, http_request.body, {}))


class Later(Handler):
    """Answers requests when the test reports the end of a turn of the loop."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def handle(self, http_request):
        http_request.on_end = lambda: self.budget.give_back(len(http_request.body))
        self.waiting.append(http_request)

    def end(self):
        waiting, self.waiting = self.waiting, []
        for http_request in waiting:
            if not http_request.is_over:
                self.seen.append(described(http_request))
                http_request.answer(Reply(200, http_request.body, {}))


class Transport(asyncio.Transport):
    """Keeps the written bytes."""

    def __init__(self):
        super().__init__()
        self.written, self.is_closed, self.when_written = b"", False, None

    def get_extra_info(self, name, default=None):
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data):
        self.written += data
        if self.when_written is not None:
            self.when_written()

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    def can_write_eof(self):
        return False

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Peer:
    """A connection without a network, with its input and its output."""

    def __init__(self, heads=None, limits=None, handler=None):
        self.handler, self.transport = handler or Handler(), Transport()
        self._loop = asyncio.get_running_loop()
        self.all = Connections(limits or ConnectionLimits(), LoopQueue(self._loop))
        if heads is not None:
            self.all.heads = heads
        self.connection = Connection(self.all, self.handler)
        self.connection.connection_made(self.transport)

    def send(self, *pieces):
        for piece in pieces:
            if not self.transport.is_closed:
                self.connection.data_received(piece)
                if isinstance(self.handler, Later):
                    self.handler.end()
        return self.handler.seen

    def answers(self):
        """Returns the lines of the replies, without dates and without keep-alive headers."""
        told = (b"date:", b"connection: keep-alive")
        parts = self.transport.written.split(b"\r\n")
        return [part for part in parts if not part.startswith(told)]

    def lose(self):
        self.connection.connection_lost(None)


class NoHeads(HeaderCache):
    """A header cache that stores nothing."""

    def learn(self, *_):
        pass


class CountedHeads(dict[bytes, tuple[RequestHead, int]]):
    """Heads by their bytes; counts the lookups that succeed."""

    found = 0

    def get(self, head, default=None):
        known = super().get(head, default)
        self.found += known is not None
        return known


class Counting(HeaderCache):
    """A header cache that counts its hits."""

    def __init__(self):
        super().__init__()
        self.known = CountedHeads()


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
        return heads.known.found, peer.handler.seen, peer.transport.written

    found, seen, written = in_loop(test)
    assert found == 3
    assert [body for *_, body in seen] == [b"0", b"1", b"2", b"3", b"4"]
    assert len({(method, target, (*headers,)) for method, target, headers, _ in seen}) == 1
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
    request("/", b"one", "X-Request-Id: a-1"),
    request("/", b"one", "X-Request-Id: b-2"),
    request("/", b"one", "x-request-id: c-3", "Traceparent: 00-1-2-01"),
    request("/", b"one", "x-request-id: d-4", "X-Request-Id: e-5"),
    request("/", b"one", "x-request-id: f-6", "X-Request-Id: g-7"),
    request("/", b"one", "Traceparent: 00-1-2-01", "x-request-id: h-8"),
    request("/", b"one", "X-Request-Id:i-9"),
    request("/", b"one", "X-Request-Id:  j-10"),
    request("/", b"one", "X-Request-Id: k 11"),
    request("/", b"one", "X-Request-Id: l-12 "),
    request("/", b"one", "X-Request-Id: "),
    request("/", b"one", "X-Request-Id: \xff"),
    request("/", b"one", "X-Request-Id: m-13\r\n n"),
    request("/", b"one", "X-Request-Id: o-14\n"),
    request("/", b"one", "A: X-Request-Id: p-15"),
    request("/", b"one", "X-Request-Id: q-16", "X-Request-Id: r 17"),
    request("/", b"one", "X-Request-Id: s 18", "x-request-id: t-19"),
    b"\r\n" + request("/", b"one", "X-Request-Id: u-20"),
    b"\r\nX-Request-Id: v-21\r\n" + request("/", b"one"),
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n",
    b"GET /",
    b"no request",
)


@st.composite
def pieces_of_messages(draw):
    """Requests in pieces: mostly whole messages, which the cache looks up."""
    messages = draw(st.lists(st.sampled_from(MESSAGES), max_size=12))
    stream = b"".join(messages)
    edges, at = {0}, 0
    for message in messages:
        at += len(message)
        edges.add(at)
    edges |= set(draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    edges -= set(draw(st.lists(st.sampled_from(sorted(edges)), max_size=4)))
    cuts = sorted(edges | {0, len(stream)})
    return [stream[one:other] for one, other in itertools.pairwise(cuts)]


@given(pieces=pieces_of_messages())
def test_any_pieces_of_any_requests_mean_the_same_as_where_every_head_is_read(pieces):
    def test():
        found = []
        for heads in (HeaderCache(), NoHeads()):
            peer = Peer(heads)
            for message in MESSAGES:  # already cached, if cacheable
                other = Peer(heads)
                other.send(message, message)
                other.lose()
            peer.send(*pieces)
            peer.lose()
            found.append((peer.handler.seen, peer.transport.is_closed, peer.answers()))
        return found

    known, read = in_loop(test)
    assert known == read


@given(pieces=pieces_of_messages())
def test_any_pieces_mean_the_same_where_requests_are_answered_later(pieces):
    def test():
        found = []
        for handler in (Later(), Handler()):
            heads = HeaderCache()
            for message in MESSAGES:
                other = Peer(heads, handler=handler)
                other.send(message, message)
                other.lose()
            handler.seen.clear()
            peer = Peer(heads, handler=handler)
            peer.send(*pieces)
            peer.lose()
            found.append(
                (handler.seen, peer.transport.is_closed, peer.answers(), handler.budget.taken)
            )
        return found

    later, at_once = in_loop(test)
    assert later == at_once


def test_a_request_with_a_known_head_is_not_answered_as_the_old_one_before_it():
    def test():
        message = request("/", b"x")
        peer = Peer(heads := HeaderCache(), handler=Later())
        peer.send(message, message)
        other = Peer(heads, handler=peer.handler)
        other.send(request("/", b"o", "Connection: keep-alive", version="1.0"))
        written = len(other.transport.written)
        other.send(message)
        for one in (peer, other):
            one.lose()
        return other.transport.written[written:]

    answer = in_loop(test)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"keep-alive" not in answer


def test_a_connection_whose_request_is_answered_later_does_not_rest():
    """Tests that such a connection is not closed for another connection, nor for idleness."""

    async def test():
        message = request("/", b"x")
        limits = ConnectionLimits(keepalive=0.01, connections=1, per_client=1)
        peer = Peer(handler=Later(), limits=limits)
        peer.send(message, message, message)
        peer.connection.data_received(message)
        other = Peer(limits=limits)
        other.send(message)
        while not other.transport.is_closed:  # idle for longer than the limit
            await asyncio.sleep(0)
        makes_room = peer.all.admit(Resting())
        is_closed = peer.transport.is_closed
        peer.lose()
        other.lose()
        return makes_room, is_closed

    assert asyncio.run(test()) == (False, False)


class Resting:
    host = "127.0.0.1"

    def close(self):
        pass


def test_a_request_that_is_answered_later_is_told_that_who_asked_has_gone_and_is_answered_no_more():
    def test():
        message, told = request("/", b"x"), []
        peer = Peer(handler=Later())
        peer.send(message, message)
        peer.connection.data_received(message)
        (http_request,) = peer.handler.waiting
        http_request.on_gone = lambda: told.append(http_request.body)
        written = peer.transport.written
        peer.lose()
        http_request.answer(Reply(200, b"late", {}))
        return told, http_request.is_over, peer.transport.written == written

    assert in_loop(test) == ([b"x"], True, True)


@pytest.mark.parametrize("way", ["end", "limit"])
def test_the_last_request_of_a_connection_is_told_so_although_its_head_is_known(way):
    def test():
        message = request("/", b"x")
        limits = ConnectionLimits(requests=4 if way == "limit" else 0)
        peer = Peer(handler=Later(), limits=limits)
        peer.send(message, message, message)
        if way == "end":
            peer.connection.end()
        peer.send(message, message)
        peer.lose()
        return peer.transport.written.lower(), peer.transport.is_closed, len(peer.handler.seen)

    written, is_closed, seen = in_loop(test)
    assert (written.count(b"connection: close"), is_closed, seen) == (1, True, 4)


def test_a_known_head_that_stands_in_the_value_of_a_header_is_no_request():
    def test():
        peer = Peer(HeaderCache())
        inner = request("/inner", b"in")
        peer.send(inner, inner, inner)
        peer.handler.seen.clear()
        peer.send(b"POST /outer HTTP/1.1\r\nA: ", inner)
        seen = list(peer.handler.seen)
        peer.lose()
        return seen

    ((_, target, headers, body),) = in_loop(test)
    assert (target, body) == ("/outer", b"in")
    assert dict(headers)[b"a"].startswith(b"POST /inner")


def test_nor_where_it_stands_behind_a_request_that_is_answered_at_once():
    def test():
        peer = Peer(handler=Later())
        inner = request("/inner", b"in")
        peer.send(inner, inner, inner)
        peer.handler.seen.clear()
        begun = b"POST /outer HTTP/1.1\r\nA: "
        peer.send(request("/first", method="GET") + begun, inner)
        seen = [target for _, target, _, _ in peer.handler.seen]
        peer.lose()
        return seen

    assert in_loop(test) == ["/first", "/outer"]


def test_a_head_that_differs_each_time_is_not_kept():
    def test():
        peer = Peer(heads := HeaderCache())
        for number in range(20):
            peer.send(request("/", b"x", f"X-Number: {number}"))
        peer.lose()
        return heads

    assert not in_loop(test).known


def test_heads_that_differ_in_the_id_of_the_request_alone_are_read_twice():
    def test():
        peer = Peer(heads := Counting())
        for number in range(10):
            trace = f"traceparent: 00-{number}"
            peer.send(request("/", b"x", "A: b", f"X-Request-Id: {number}", trace))
        peer.lose()
        return heads.known, [dict(headers) for _, _, headers, _ in peer.handler.seen]

    known, seen = in_loop(test)
    assert (len(known), known.found) == (1, 8)
    assert [headers[b"x-request-id"] for headers in seen] == [b"%d" % n for n in range(10)]
    assert [headers[b"traceparent"] for headers in seen] == [b"00-%d" % n for n in range(10)]
    assert {headers[b"a"] for headers in seen} == {b"b"}


def test_the_heads_that_are_kept_are_bounded():
    heads = HeaderCache()
    for number in range(3 * request_module._MOST):
        head = b"GET /%d HTTP/1.1\r\n\r\n" % number
        heads.learn(head, RequestHead("GET", f"/{number}"), 0)
        assert head in heads.known
        assert len(heads.known) <= request_module._MOST
    long = b"GET / HTTP/1.1\r\nA: " + b"a" * request_module.LONGEST + b"\r\n\r\n"
    heads.learn(long, RequestHead("GET", "/"), 0)
    assert long not in heads.known


def test_a_known_request_is_refused_as_any_other_and_the_connection_goes_on():
    def test():
        peer = Peer()
        message = request("/", b"x")
        peer.send(message, message, message)
        peer.handler.refusal = Reply(503, b"full", {})
        peer.send(message)
        peer.handler.refusal = None
        peer.send(message)
        taken = peer.handler.budget.taken
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
