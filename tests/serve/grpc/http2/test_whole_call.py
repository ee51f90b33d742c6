"""Calls that come whole, with a head that has come before: they mean what they mean otherwise."""

import asyncio
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.http.connections import ConnectionLimits, Connections
from modelflow.http.reply import BodyBudget
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.access.keys import Group
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.http2 import call_headers as known_calls
from modelflow.serve.grpc.http2.call_headers import HeaderCache
from modelflow.serve.grpc.http2.connection import GrpcConnection
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.serve.grpc.limits import GrpcLimits
from modelflow.serve.grpc.service import Method, Service
from modelflow.wire.problem import Code, Problem
from tests.serve.grpc.http2 import wire as h2
from tests.serve.grpc.http2.wire import call, frame, framed, head

ECHO, LATER, MANY = "/a.Service/Echo", "/a.Service/Later", "/a.Service/Many"
PATHS = (ECHO, LATER, MANY)


class Answer(bytes):
    """A message that is its own bytes."""

    def SerializeToString(self):  # noqa: N802 - as protobuf calls it
        if self == b"unserialisable":
            raise ZeroDivisionError("a secret")
        return bytes(self)


class Echo(Service):
    """A service that answers with what it is sent: at once, when it is told to, or not at all."""

    def __init__(self):  # no descriptor lists its methods
        for name in ("seen", "waiting", "gone"):
            object.__setattr__(self, name, [])

    def methods(self):
        for path in PATHS:
            is_many = path == MANY
            answer = self._later if path == LATER else self._echo
            yield Method("a", path, Group.INFER, is_many, is_many, self._parse, answer)

    def _parse(self, data):
        if data == b"bad":
            raise Problem("this is bad")
        if data == b"broken":
            raise ZeroDivisionError("a secret")
        return data

    def _echo(self, rpc, data):
        self.seen.append(data)
        if data == b"refused":
            rpc.refuse(Problem("not now", Code.UNAVAILABLE))
        elif data == b"settled":
            rpc.settle(Answer, b"so")
        elif data == b"in parts":
            rpc.send(Answer(b"one"))
            rpc.end()
        else:
            rpc.answer(Answer(data))

    def _later(self, rpc, data):
        rpc.on_gone = lambda: self.on_cancel.append(data)
        self.waiting.append((rpc, data))

    def answer(self):
        """Answers those that wait."""
        while self.waiting:
            self._echo(*self.waiting.pop(0))


class Unknown(HeaderCache):
    """Knows none."""

    def learn(self, head, method):
        pass


class Transport:
    """Takes what is sent."""

    def __init__(self):
        self.written, self.is_closed = b"", False

    def get_extra_info(self, name):
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    abort = close

    def can_write_eof(self):
        return False

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Served:
    """A server without a network, and its connections."""

    def __init__(self, heads=None, *, reception=None, budget=1 << 20, **limits):
        self.echo = Echo()
        self.budget = BodyBudget(budget)
        connections = Connections(ConnectionLimits(), LoopQueue(asyncio.get_running_loop()))
        self.limits = GrpcLimits(1 << 20, self.budget, **{"calls": 1000, **limits})
        self.board = MethodTable([self.echo], reception or Middleware(), self.limits, connections)
        if heads is not None:
            self.board.heads = heads

    def connect(self, *settings):
        peer = Peer(self.board)
        peer.send(h2.PREFACE + frame(h2.SETTINGS, 0, 0, b"".join(settings)))
        return peer

    def learn(self, *more):
        """Has the heads of all methods known."""
        peer = self.connect()
        numbers = itertools.count(1, 2)
        for path in PATHS:
            for _ in range(2):
                peer.send(call(next(numbers), path, framed(b"x"), *more))
                self.echo.answer()
        peer.lose()
        self.echo.seen.clear()
        return self


class Peer:
    """A connection."""

    def __init__(self, board):
        self.transport = Transport()
        self.connection = GrpcConnection(board)
        self.connection.connection_made(self.transport)

    def send(self, data):
        if not self.transport.is_closed:
            self.connection.data_received(data)

    @property
    def whole(self):
        """How many whole calls are under way."""
        return len(self.connection._calls.whole)

    def lose(self):
        self.connection.connection_lost(None)


def in_loop(test):
    """Runs a test on an event loop."""

    async def run():
        return await test()

    return asyncio.run(run())


async def turn():
    """Lets what is due go out."""
    await asyncio.sleep(0)


def statuses(written):
    return [int(part[1 : 1 + part[0]]) for part in written.split(b"\x00\x0bgrpc-status")[1:]]


def by_stream(written):
    """What is said of each stream: which of them comes first nobody is promised."""
    found = {}
    while written:
        end = 9 + int.from_bytes(written[:3], "big")
        found.setdefault(written[5:9], []).append(written[:end])
        written = written[end:]
    return found


BODIES = st.sampled_from(
    [
        framed(b"one"),
        framed(b"another"),
        framed(b""),
        framed(b"bad"),
        framed(b"broken"),
        framed(b"refused"),
        framed(b"settled"),
        framed(b"in parts"),
        framed(b"unserialisable"),
        framed(b"x" * 300),
        framed(b"x", 1),
        framed(b"x", 2),
        framed(b"one") + framed(b"two"),
        framed(b"one")[:-1],
        framed(b"one") + b"\0",
        b"\0\0",
        b"\0\x7f\xff\xff\xff",
        b"",
    ]
)
TIMES = st.sampled_from([b"", b"", b"99S", b"98S", b"0S", b"soon", b"99S 98S", b"9" * 3000]).map(
    lambda text: [(b"grpc-timeout", each) for each in text.split()]
)
WORDS = st.sampled_from(["data", "part", "end", "last", "reset", "window", "answer"])


@st.composite
def begun(draw, number):
    """How a call begins: whether it is all of it, and its frames."""
    path, body = draw(st.sampled_from(PATHS)), draw(BODIES)
    form, times = draw(st.integers(0, 8)), draw(TIMES)
    if form == 0:
        return True, frame(h2.HEADERS, h2.WHOLE | h2.END, number, head(path))
    began = frame(h2.HEADERS, h2.WHOLE, number, head(path, *times))
    if form < 5:
        return True, began + frame(h2.DATA, h2.END, number, body)
    return False, began


@st.composite
def gone_on(draw, number):
    """What comes for a call that has begun: whether that was all, and a frame; None: answers."""
    word = draw(WORDS)
    body = draw(BODIES)
    return word in ("end", "last"), {
        "reset": frame(h2.RESET, 0, number, h2.CANCEL.to_bytes(4, "big")),
        "window": frame(h2.WINDOW, 0, number, (1 << 10).to_bytes(4, "big")),
        "answer": None,
        "data": frame(h2.DATA, 0, number, body),
        "part": frame(h2.DATA, 0, number, body[:3]),
        "end": frame(h2.DATA, h2.END, number, b""),
        "last": frame(h2.DATA, h2.END, number, body),
    }[word]


@st.composite
def talks(draw):
    """What a client says, and where the server's model answers: calls whole or not, and mixed."""
    said, open_, number = [], [], 1
    for _ in range(draw(st.integers(1, 10))):
        if draw(st.booleans()) or not open_:
            is_all, found = draw(begun(number))
            open_ += [] if is_all else [number]
            number += 2
        else:
            stream = draw(st.sampled_from(open_))
            is_all, found = draw(gone_on(stream))
            if is_all:
                open_.remove(stream)
        said.append(found)
    return said


@st.composite
def pieces_of_talks(draw):
    """The same, some of it in one piece, some cut in the middle of a frame; None: answers come."""
    pieces = []
    for said in draw(talks()):
        if said is None or not pieces or pieces[-1] is None or draw(st.integers(0, 3)) == 0:
            pieces.append(said)
        else:
            pieces[-1] += said
    found = []
    for piece in pieces:
        at = 0 if piece is None or draw(st.integers(0, 4)) else draw(st.integers(0, len(piece)))
        found += [piece[:at], piece[at:]] if at else [piece]
    return found


@settings(max_examples=300, deadline=None)
@given(
    pieces=pieces_of_talks(),
    window=st.sampled_from([b"", b"\0\4\0\0\0\5", b"\0\4\0\0\0\0"]),
    budget=st.sampled_from([1 << 20, 12]),
    streams=st.sampled_from([1000, 2]),
    paused=st.sampled_from([None, 0, 1]),
)
def test_whatever_is_said_means_the_same_as_where_no_head_is_known(
    pieces, window, budget, streams, paused
):
    async def talk(heads):
        served = Served(heads, budget=budget, streams=streams).learn()
        assert bool(served.board.heads.known) == (not isinstance(heads, Unknown))
        peer = served.connect(window)
        for place, piece in enumerate(pieces):
            if place == paused:
                peer.connection.pause_writing()
            if piece is None:
                served.echo.answer()
            else:
                peer.send(piece)
            await turn()
        if paused is not None and not peer.transport.is_closed:
            peer.connection.resume_writing()
        served.echo.answer()
        await turn()
        written = by_stream(re.sub(b"[0-9a-f]{12}", b"f" * 12, peer.transport.written))
        closed = peer.transport.is_closed
        peer.lose()
        left = (served.budget._taken, len(served.board.calls), len(served.board.connections))
        return served.echo.seen, served.echo.on_cancel, written, closed, left

    known, read = (in_loop(lambda heads=heads: talk(heads)) for heads in (HeaderCache(), Unknown()))
    assert known == read
    assert known[-1] == (0, 0, 0)


@pytest.mark.parametrize("frames", [[1, 1], [2], [1, 0.5], [0.5, 0.5, 1]])
def test_several_messages_in_one_turn_are_no_whole_call(frames):
    async def test():
        served, body = Served().learn(), framed(b"abc")
        peer = served.connect()
        parts = [frame(h2.DATA, 0, 1, (body * 2)[: int(len(body) * each)]) for each in frames]
        peer.send(frame(h2.HEADERS, h2.WHOLE, 1, head(ECHO)) + b"".join(parts))
        peer.send(frame(h2.DATA, h2.END, 1))
        other = peer.transport.written
        peer.send(
            frame(h2.HEADERS, h2.WHOLE, 3, head(ECHO)) + b"".join(parts) + frame(h2.DATA, h2.END, 3)
        )
        await turn()
        found = statuses(other), statuses(peer.transport.written)
        peer.lose()
        return found, served.echo.seen

    assert in_loop(test) == (([12], [12, 12]), [])


def test_from_the_third_call_on_a_head_is_not_looked_through_again():
    async def test():
        served = Served()
        peer, counts = served.connect(), []
        for number in range(1, 11, 2):
            peer.send(call(number, LATER, framed(b"%d" % number)))
            counts.append(peer.whole)
        served.echo.answer()
        await turn()
        found = statuses(peer.transport.written)
        left = peer.whole
        peer.lose()
        return counts, served.echo.seen, found, left

    counts, seen, found, left = in_loop(test)
    assert (counts, left) == ([0, 0, 1, 2, 3], 0)
    assert seen == [b"1", b"3", b"5", b"7", b"9"]
    assert found == [0] * 5


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (LATER, (b"x-request-id", b"a")),
        (LATER, (b"traceparent", b"00-11111111111111111111111111111111-2222222222222222-01")),
        (LATER, (b"x", b"y" * known_calls.LONGEST)),
        (MANY, (b"x", b"y")),
    ],
)
def test_a_head_of_another_call_is_not_kept(path, more):
    async def test():
        served = Served()
        peer = served.connect()
        for number in range(1, 11, 2):
            peer.send(call(number, path, framed(b"x"), more))
        served.echo.answer()
        found = dict(served.board.heads.known)
        peer.lose()
        return found

    assert in_loop(test) == {}


def test_nor_one_that_differs_each_time_nor_any_where_every_call_is_seen():
    async def test():
        reception = Middleware()
        reception.sees_all = True
        every, served = Served(reception=reception).learn(), Served()
        peer = served.connect()
        for number in range(1, 41, 2):
            peer.send(call(number, ECHO, framed(b"x"), (b"a", b"%d" % number)))
        peer.lose()
        return every.board.heads.known, served.board.heads.known

    assert in_loop(test) == ({}, {})


def test_the_heads_that_are_kept_are_bounded():
    heads = HeaderCache()
    for number in range(3 * known_calls._MOST):
        heads.learn(number, None)
        assert number in heads.known
        assert len(heads.known) <= known_calls._MOST


def test_a_connection_with_a_whole_call_does_not_rest_and_rests_behind_it():
    async def test():
        served = Served().learn()
        peer = served.connect()
        resting = served.board.connections.resting
        found = [peer.connection in resting]
        peer.send(call(1, LATER, framed(b"x")))
        found += [peer.connection in resting, peer.connection._expiry.due is None]
        served.echo.answer()
        found += [peer.connection in resting, peer.connection._expiry.due is None]
        peer.lose()
        return found

    assert in_loop(test) == [True, False, True, True, False]


@pytest.mark.parametrize("sent", [b"", frame(h2.DATA, 0, 1, framed(b"x"))])
def test_a_call_with_a_known_head_that_does_not_come_whole_has_its_time(sent):
    async def test():
        served = Served().learn()
        peer = served.connect()
        peer.send(frame(h2.HEADERS, h2.WHOLE, 1, head(ECHO)) + sent)
        waiting = len(served.board.reading.until)
        peer.send(frame(h2.DATA, h2.END, 1, b"" if sent else framed(b"x")))
        await turn()
        found = waiting, len(served.board.reading.until), statuses(peer.transport.written)
        peer.lose()
        return found

    assert in_loop(test) == (1, 0, [0])


def test_whole_calls_count_towards_those_that_there_may_be():
    async def test():
        served = Served(calls=2).learn()
        first, second = served.connect(), served.connect()
        for peer in (first, second):
            peer.send(call(1, LATER, framed(b"x")) + call(3, LATER, framed(b"y")))
        await turn()
        served.echo.answer()
        await turn()
        found = [statuses(peer.transport.written) for peer in (first, second)]
        first.lose()
        second.lose()
        return found

    assert in_loop(test) == [[0, 0], [8, 8]]


def test_who_works_on_a_whole_call_is_told_that_its_client_has_gone_or_given_it_up():
    async def test():
        served = Served().learn()
        peer = served.connect()
        peer.send(call(1, LATER, framed(b"one")) + call(3, LATER, framed(b"two")))
        peer.send(frame(h2.RESET, 0, 1, h2.CANCEL.to_bytes(4, "big")))
        taken = served.budget._taken
        first = list(served.echo.on_cancel)
        written = peer.transport.written
        peer.lose()
        served.echo.answer()
        await turn()
        return (
            first,
            served.echo.on_cancel,
            taken,
            served.budget._taken,
            written == peer.transport.written,
        )

    assert in_loop(test) == ([b"one"], [b"one", b"two"], 3, 0, True)


def test_a_stop_answers_whole_calls_that_are_under_way():
    async def test():
        served = Served().learn()
        peer = served.connect()
        peer.send(call(1, LATER, framed(b"one")))
        ending = asyncio.ensure_future(served.board.connections.wait_until_ended())
        await turn()
        peer.connection._shut()
        closed = peer.transport.is_closed
        served.echo.answer()
        await turn()
        found = closed, peer.transport.is_closed, statuses(peer.transport.written)
        peer.lose()
        await ending
        return found

    assert in_loop(test) == (False, True, [0])


def test_a_head_is_known_whatever_its_deadline_which_each_call_has():
    async def test():
        served = Served()
        peer, counts = served.connect(), []
        for number in range(1, 9, 2):
            peer.send(call(number, LATER, framed(b"x"), (b"grpc-timeout", b"%dS" % (90 + number))))
            counts.append(peer.whole)
        seconds = [rpc.seconds for rpc, _ in served.echo.waiting]
        peer.lose()
        return counts, seconds

    counts, seconds = in_loop(test)
    assert counts == [0, 0, 1, 2]
    assert [round(one) for one in seconds] == [91, 93, 95, 97]


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_whole_call_ends_at_its_deadline_and_who_works_on_it_is_told(is_writable):
    async def test():
        served = Served().learn()
        peer = served.connect()
        peer.send(call(1, LATER, framed(b"x"), (b"grpc-timeout", b"1m")))
        found = [peer.whole]
        if not is_writable:
            peer.connection.pause_writing()
        while not served.echo.on_cancel:
            await turn()
        await turn()
        served.echo.answer()
        found += [peer.whole, statuses(peer.transport.written), served.budget._taken]
        peer.lose()
        return found

    assert in_loop(test) == [1, 0, [4], 0]


def test_a_whole_call_that_another_takes_over_keeps_its_deadline():
    async def test():
        served = Served().learn()
        peer = served.connect(b"\0\4\0\0\0\5")
        peer.send(call(1, ECHO, framed(b"abc"), (b"grpc-timeout", b"20m")))
        (other,) = peer.connection._calls.others.values()  # its client takes no more
        while not other.is_over:
            await turn()
        peer.send(frame(h2.WINDOW, 0, 1, (1 << 10).to_bytes(4, "big")))
        await turn()
        found = statuses(peer.transport.written), len(served.board.calls)
        peer.lose()
        return found

    assert in_loop(test) == ([4], 0)
