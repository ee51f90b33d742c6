"""Tests of harmful clients on a connection, and of their effect on other clients."""

import gzip
import socket
import threading

import grpc
import numpy as np
import pytest

from modelflow.http.options import ConnectionLimits
from modelflow.serve.options import GrpcKind
from modelflow.wire.proto import OPEN_INFERENCE
from tests.serve.grpc.http2 import wire as h2
from tests.serve.grpc.http2.wire import call, connected, frame, framed, head
from tests.serve.grpc.stub import grpc_served, infer, stub
from tests.serve.grpc.test_open_inference import values
from tests.serve.test_server import Gate


def native(*args, **options):
    return grpc_served(*args, grpc_server=GrpcKind.NATIVE, **options)


@pytest.fixture(scope="module")
def server():
    with native(max_body=1 << 16) as running:
        yield running


@pytest.fixture(autouse=True)
def _sound(server):
    """Checks after each test that other clients still get answers."""
    yield
    with stub(server) as client:
        assert values(client.oip("ModelInfer", infer())) == [1.0, 4.0]
        while server.model("m").admission.under_way:
            pass


def status(frames):
    """Returns the status of a call from its trailers, which no test compresses."""
    last = frames[-1].body
    return int(last.split(b"grpc-status", 1)[1][1:].split(b"\x00")[0][:2].strip(b"\x0c"))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", h2.PROTOCOL),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", h2.PROTOCOL),
        (h2.PREFACE + call(1), h2.PROTOCOL),
        (h2.PREFACE + frame(h2.SETTINGS) + call(2), h2.PROTOCOL),
        (h2.PREFACE + frame(h2.SETTINGS) + frame(h2.DATA, 0, 0, b"x"), h2.PROTOCOL),
        (h2.PREFACE + frame(h2.SETTINGS) + frame(h2.PING, 0, 0, b"1234"), h2.FRAME_SIZE),
        (h2.PREFACE + frame(h2.SETTINGS) + frame(h2.DATA, 0, 1, b"x" * 20_000), h2.FRAME_SIZE),
        (
            h2.PREFACE + frame(h2.SETTINGS) + frame(h2.WINDOW, 0, 0, b"\x7f" + b"\xff" * 3),
            h2.FLOW_CONTROL,
        ),
        (h2.PREFACE + frame(h2.SETTINGS) + frame(h2.HEADERS, 5, 1, b"\xff" * 9), h2.COMPRESSION),
        (
            h2.PREFACE
            + frame(h2.SETTINGS)
            + frame(h2.HEADERS, 1, 1, head())
            + frame(h2.PING, 0, 0, b"12345678"),
            h2.PROTOCOL,
        ),
    ],
)
def test_what_is_no_http2_ends_the_connection_with_its_code(server, sent, code):
    with connected(server, is_met=False) as wire:
        wire.send(sent)
        ends = [one for one in wire.rest() if one.kind == h2.GOAWAY]
    assert [one.code for one in ends] == [code]


@pytest.mark.parametrize("count", [20, 10_000])
def test_headers_that_grow_when_they_are_read_end_the_connection(server, count):
    long = b"\x40" + h2.text(b"a") + h2.text(b"z" * 4000)  # and by index from now on
    with connected(server) as wire:
        wire.send(frame(h2.HEADERS, 5, 1, head() + long + b"\xbe" * count))
        assert wire.rest()[-1].code == h2.CALM


@pytest.mark.parametrize(
    "flood",
    [
        frame(h2.PING, 0, 0, b"12345678"),
        frame(h2.SETTINGS),
        frame(h2.CONTINUATION, 0, 1),
    ],
)
def test_floods_end_the_connection(server, flood):
    with connected(server) as wire:
        if flood[3] == h2.CONTINUATION:
            wire.send(frame(h2.HEADERS, 0, 1, head()))
        wire.send(flood * 3000)
        assert wire.rest()[-1].code == h2.CALM


def test_who_resets_many_calls_is_asked_for_another_connection_and_then_ended(server):
    reset = h2.CANCEL.to_bytes(4, "big")
    with connected(server) as wire:
        for number in range(1, 240, 2):
            wire.send(
                frame(h2.HEADERS, h2.WHOLE, number, head()), frame(h2.RESET, 0, number, reset)
            )
        assert wire.until(h2.GOAWAY).code == h2.NO_ERROR
        for number in range(241, 1200, 2):
            wire.send(
                frame(h2.HEADERS, h2.WHOLE, number, head()), frame(h2.RESET, 0, number, reset)
            )
        assert wire.rest()[-1].kind == h2.GOAWAY


def test_a_ping_is_answered(server):
    with connected(server) as wire:
        wire.send(frame(h2.PING, 0, 0, b"12345678"))
        found = wire.until(h2.PING)
    assert (found.flags, found.body) == (1, b"12345678")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (call(1, body=b""), 12),
        (call(1, body=framed(infer().SerializeToString())[:-1]), 13),
        (call(1, body=framed(b"\xff\xff")), 3),
        (call(1, body=framed(b"", flag=2)), 13),
        (call(1, body=framed(b"x", flag=1)), 13),
        (call(1, h2.INFER, framed(b"x", flag=1), (b"grpc-encoding", b"snappy")), 12),
        (call(1, h2.INFER, framed(b"x", flag=1), (b"grpc-encoding", b"gzip")), 13),
        (
            call(
                1, h2.INFER, framed(gzip.compress(bytes(1 << 20)), 1), (b"grpc-encoding", b"gzip")
            ),
            8,
        ),
        (call(1, body=h2.asked() + h2.asked()), 12),
        (call(1, "/nobody/Nothing"), 12),
        (call(1, h2.INFER, None, (b"grpc-timeout", b"soon")), 3),
        (call(1, h2.INFER, None, (b"grpc-timeout", b"1n")), 4),
        (call(1, h2.INFER, None, (b"x", b"y" * 9000), (b"z", b"y" * 3000)), 0),
        (frame(h2.HEADERS, h2.WHOLE, 1, head()) + frame(h2.DATA, 0, 1, b"\0\x7f\xff\xff\xff"), 8),
        (frame(h2.HEADERS, 5, 1, head()), 12),
        (call(1), 0),
    ],
)
def test_a_call_that_is_wrong_ends_alone_with_its_status(server, sent, code):
    with connected(server) as wire:
        wire.send(sent)
        found = wire.answer(1)
        assert b"grpc-status" in found[-1].body
        assert status(found) == code
        wire.send(call(3))
        assert status(wire.answer(3)) == 0


@pytest.mark.parametrize(
    ("sent", "text"),
    [(head(method=b"GET"), b"405"), (head(kind=b"text/plain"), b"415")],
)
def test_what_is_no_call_is_answered_as_http_does(server, sent, text):
    with connected(server) as wire:
        wire.send(frame(h2.HEADERS, 5, 1, sent))
        (found,) = wire.answer(1)
    assert text in found.body


def test_headers_that_are_wrong_end_their_stream_alone(server):
    with connected(server) as wire:
        wire.send(frame(h2.HEADERS, 5, 1, head() + h2.field(b"Upper", b"x")))
        (found,) = wire.answer(1)
        assert (found.kind, found.code) == (h2.RESET, h2.PROTOCOL)
        wire.send(call(3))
        assert status(wire.answer(3)) == 0


def test_a_message_that_comes_byte_by_byte_is_read(server):
    with connected(server) as wire:
        wire.send(frame(h2.HEADERS, h2.WHOLE, 1, head()))
        for byte in h2.asked():
            wire.send(frame(h2.DATA, 0, 1, bytes([byte])))
        wire.send(frame(h2.DATA, h2.END, 1))
        assert status(wire.answer(1)) == 0


def test_a_client_gets_no_more_than_its_window_and_holds_up_only_itself(server):
    small = frame(h2.SETTINGS, 0, 0, b"\0\4\0\0\0\5")  # five bytes per stream
    with connected(server) as wire:
        wire.send(small, call(1), call(3))
        first = [wire.until(h2.DATA) for _ in range(2)]
        assert {one.stream for one in first} == {1, 3}
        assert [len(one.body) for one in first] == [5, 5]
        wire.send(frame(h2.WINDOW, 0, 3, (1 << 16).to_bytes(4, "big")))
        assert status(wire.answer(3)) == 0
        wire.send(frame(h2.WINDOW, 0, 1, (1 << 16).to_bytes(4, "big")))
        assert status(wire.answer(1)) == 0


def test_an_answer_that_is_not_taken_in_time_is_given_up():
    limits = ConnectionLimits(keepalive=0.2)
    with native(connections=limits) as server, connected(server) as wire:
        wire.send(frame(h2.SETTINGS, 0, 0, b"\0\4\0\0\0\5"), call(1))
        assert (found := wire.answer(1)[-1]).kind == h2.RESET
        assert found.code == h2.CANCEL


def test_a_stream_whose_messages_wait_is_given_no_credit_and_others_are_answered():
    gate = Gate()
    one = h2.asked(infer(np.zeros((1, 2000), np.float32)))
    with native(gate.unit, gate.NODE) as server, connected(server) as wire:
        wire.send(frame(h2.HEADERS, h2.WHOLE, 1, head(h2.STREAM)))
        for _ in range(130):
            wire.send(frame(h2.DATA, 0, 1, one))
        wire.send(call(3, h2.LIVE, framed(b"")))
        credit, live = 0, False
        while not live:
            found = wire.until(h2.WINDOW, h2.HEADERS, h2.DATA)
            if found.kind == h2.WINDOW and found.stream == 1:
                credit += int.from_bytes(found.body, "big")
            live = found.stream == 3 and bool(found.flags & h2.END)
        assert credit <= 66 * len(one)  # the credit of the calls in progress
        gate.go.set()
        answers = 0
        wire.send(frame(h2.WINDOW, 0, 1, (1 << 24).to_bytes(4, "big")))
        wire.send(frame(h2.DATA, h2.END, 1))
        while not (found := wire.until(h2.WINDOW, h2.HEADERS, h2.DATA)).flags & h2.END:
            answers += found.kind == h2.DATA
            if found.kind == h2.WINDOW and found.stream == 1:
                credit += int.from_bytes(found.body, "big")
        assert answers == 130
        assert credit > 66 * len(one)


def test_a_half_message_has_its_time():
    with native(body_time_out=0.2) as server, connected(server) as wire:
        wire.send(frame(h2.HEADERS, h2.WHOLE, 1, head()), frame(h2.DATA, 0, 1, h2.asked()[:9]))
        assert status(wire.answer(1)) == 4


@pytest.mark.parametrize("is_met", [True, False])
def test_a_connection_that_says_nothing_has_its_time(is_met):
    limits = ConnectionLimits(header_time_out=0.2, keepalive=0.2)
    with native(connections=limits) as server, connected(server, is_met=is_met) as wire:
        end = wire.rest()[-1]
    assert (end.kind, end.code) == (h2.GOAWAY, 0 if is_met else 4)


def test_too_many_connections_make_room_or_are_refused():
    limits = ConnectionLimits(connections=2, per_client=2)
    gate = Gate()
    with (
        native(gate.unit, gate.NODE, connections=limits) as server,
        connected(server) as first,
        connected(server) as second,
    ):
        first.send(call(1))
        assert gate.entered.acquire(timeout=h2.SECONDS)
        # the second connection is idle, and is closed for the new connection
        with connected(server) as third:
            third.send(call(1))
            second.rest()
            while server.model("m").admission.under_way != 2:
                pass
            with connected(server) as fourth:
                assert fourth.rest()[-1].code == h2.CALM
            gate.go.set()
            assert status(first.answer(1)) == status(third.answer(1)) == 0


def test_more_streams_than_there_may_be_are_refused():
    gate = Gate()
    with native(gate.unit, gate.NODE, max_streams=1) as server, connected(server) as wire:
        wire.send(call(1), call(3))
        (found,) = wire.answer(3)
        assert (found.kind, found.code) == (h2.RESET, h2.REFUSED)
        gate.go.set()
        assert status(wire.answer(1)) == 0


def test_a_client_makes_more_calls_than_a_connection_takes_and_none_fails(server):
    with stub(server) as client:
        method = client.channel.unary_unary(h2.LIVE)
        calls = [method.future(b"", timeout=h2.SECONDS) for _ in range(6000)]
        live = OPEN_INFERENCE["inference.ServerLiveResponse"].FromString
        assert all(live(one.result()).live for one in calls)


def test_who_does_not_heed_that_he_is_asked_to_go_is_answered_until_it_ends(server):
    with connected(server) as wire:
        ends, answered, number = [], 0, 1
        wire.send(call(number, h2.LIVE, framed(b"")))
        while (found := wire.next()) is not None:
            if found.kind == h2.GOAWAY:
                ends.append(found.code)
            elif found.stream == number and found.flags & h2.END:
                answered, number = answered + 1, number + 2
                wire.send(call(number, h2.LIVE, framed(b"")))
    assert 3500 < answered < 4096
    assert ends == [h2.NO_ERROR] * 2  # the server asked to end, and named the last call


def test_a_client_that_goes_away_is_not_worked_for():
    gate = Gate()
    with (
        native(gate.unit, gate.NODE) as server,
        connected(server) as wire,
        stub(server) as client,
    ):
        first = client.method(h2.OIP, "ModelInfer").future(infer(np.float32([[1.0]])))
        assert gate.entered.acquire(timeout=h2.SECONDS)
        wire.send(call(1))
        while server.model("m").admission.under_way != 2:
            pass
        wire.client.shutdown(socket.SHUT_RDWR)
        while server.model("m").admission.under_way != 1:
            pass
        gate.go.set()
        assert first.result().outputs
    assert gate.seen == [1.0]


def test_a_stop_answers_what_is_under_way_and_says_goodbye():
    gate = Gate()
    server = native(gate.unit, gate.NODE).start()
    with connected(server) as wire, connected(server) as idle:
        wire.send(call(1, h2.INFER, h2.asked(infer(np.float32([[1.0]])))))
        assert gate.entered.acquire(timeout=h2.SECONDS)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert wire.until(h2.GOAWAY).code == h2.NO_ERROR
        assert idle.rest()[-1].kind == h2.GOAWAY
        gate.go.set()
        assert status(wire.answer(1)) == 0
        wire.rest()
        stopping.join()


def test_a_compressed_message_is_read_as_the_real_client_sends_it(server):
    with stub(server) as client:
        method = client.method(h2.OIP, "ModelInfer")
        for form in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            assert values(method(infer(), compression=form, timeout=h2.SECONDS)) == [1.0, 4.0]
