"""Tests of messages over a socket whose sides have authenticated each other."""

import contextlib
import socket
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from modelflow.ipc.socket_channel import KEY_SIZE, SocketChannel, StrangerError, call, welcome

KEY = b"k" * KEY_SIZE
SECONDS = 60.0


@contextlib.contextmanager
def sides():
    """Yields the two sides of a connection of this process."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as one,
    ):
        other, _ = listener.accept()
        with other:
            yield one, other


@contextlib.contextmanager
def channels():
    with sides() as (one, other):
        yield SocketChannel(one), SocketChannel(other)


def crossed(message):
    """Returns the message as received on the other side."""
    with channels() as (one, other):
        sending = threading.Thread(target=one.send, args=(message,))
        sending.start()
        found = other.receive(SECONDS)
        sending.join()
    return found


kinds = arrays.arrays(
    st.sampled_from([np.uint8, np.float32, np.int64, np.bool_]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=40),
)


@given(st.lists(kinds | st.binary(max_size=50) | st.none(), max_size=8))
def test_whatever_is_sent_comes(values):
    for value, there in zip(values, crossed(values), strict=True):
        np.testing.assert_array_equal(value, there)
        assert getattr(value, "dtype", None) == getattr(there, "dtype", None)


def test_more_arrays_than_one_call_of_the_system_takes_cross_and_large_ones_do():
    many = [np.full(3, number) for number in range(2000)]
    np.testing.assert_array_equal(crossed(many), many)
    large = np.random.default_rng(0).integers(0, 255, (50, 400, 400, 3), np.uint8)
    found = crossed({"large": large, "turned": large[:, ::-1], "none": large[:0]})
    np.testing.assert_array_equal(found["large"], large)
    np.testing.assert_array_equal(found["turned"], large[:, ::-1])
    assert found["none"].shape == (0, 400, 400, 3)
    found["large"][:] = 0  # the memory belongs to the receiver


def test_a_message_that_stops_half_way_is_the_end():
    with sides() as (one, other):
        channel = SocketChannel(other)
        one.sendall(b"\x10\0\0\0\0\0\0\0\0\0\0\0half")
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError, match="the other side has ended"):
            channel.receive(SECONDS)


def test_absurd_counts_are_the_end_and_take_no_memory():
    with sides() as (one, other):
        one.sendall(b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff")
        with pytest.raises(EOFError, match="a message with 4294967295 arrays; expected at most"):
            SocketChannel(other).receive(SECONDS)


def test_who_takes_nothing_and_who_says_nothing_is_told_by_the_time_out():
    with channels() as (one, other):
        with pytest.raises(TimeoutError):
            other.receive(0.01)
        with pytest.raises(TimeoutError):
            one.send(np.zeros(100_000_000, np.uint8), 0.1)


def test_an_end_is_seen_before_anything_is_sent():
    with channels() as (one, other):
        assert not one.has_ended()
        other.end()
        with pytest.raises(EOFError):
            one.receive(SECONDS)
        assert one.has_ended()


# -- authentication of the other side ------------------------------------------------------------


def answered(knock, key=KEY, timeout=SECONDS):
    """Returns the exception of `welcome` for a caller, or None if the caller is admitted."""
    raised = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen():
            connection, _ = listener.accept()
            with connection:
                try:
                    welcome(connection, key, timeout)
                except OSError as error:
                    raised.append(error)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            knock(listener.getsockname())
        finally:
            thread.join()
    return raised[0] if raised else None


def test_who_knows_the_key_is_let_in():
    assert answered(lambda address: call(address, KEY, SECONDS).close()) is None


def test_who_does_not_know_it_is_refused_and_refuses():
    def knock(address):
        with pytest.raises(StrangerError, match="does not know the key"):
            call(address, b"x" * KEY_SIZE, SECONDS)

    assert isinstance(answered(knock), ConnectionError)


def test_a_stranger_who_sends_what_it_likes_is_refused():
    def knock(address):
        with socket.create_connection(address) as connection:
            connection.sendall(b"n" * 32)
            heard = connection.recv(200)
            connection.sendall(heard[-KEY_SIZE:])  # the listener's own bytes
            assert connection.recv(1) == b""

    assert isinstance(answered(knock), StrangerError)


@pytest.mark.parametrize("said", [b"", b"half of it"])
def test_who_says_nothing_is_waited_for_no_longer_than_the_time_out(said):
    def knock(address):
        with socket.create_connection(address) as connection:
            connection.sendall(said)
            assert connection.recv(1) == b""

    assert isinstance(answered(knock, timeout=0.05), TimeoutError)


def test_a_listener_that_does_not_know_the_key_is_sent_nothing():
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen():
            connection, _ = listener.accept()
            with connection:
                connection.recv(32)
                connection.sendall(b"?" * 64)
                heard.append(connection.recv(1))

        thread = threading.Thread(target=listen)
        thread.start()
        with pytest.raises(StrangerError):
            call(listener.getsockname(), KEY, SECONDS)
        thread.join()
    assert heard == [b""]
