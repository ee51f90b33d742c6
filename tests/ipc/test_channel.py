"""Tests of messages over each kind of channel: an unreadable message costs only itself."""

import contextlib
import errno
import os
import socket
import threading

import numpy as np
import pytest

from modelflow.ipc import channel as channels
from modelflow.ipc import memory_channel
from modelflow.ipc.channel import MessageError
from modelflow.ipc.memory_channel import MemoryChannel, open_channel
from modelflow.ipc.socket_channel import SocketChannel

SECONDS = 60.0


@contextlib.contextmanager
def by_memory():
    one, ends = open_channel()
    other = MemoryChannel(ends)
    yield one, other
    one.close()
    other.close()


@contextlib.contextmanager
def by_socket():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as one,
    ):
        other, _ = listener.accept()
        with other:
            yield SocketChannel(one), SocketChannel(other)


@pytest.fixture(params=[by_memory, by_socket])
def sides(request):
    with request.param() as sides:
        yield sides


class Odd:
    """Raises during pickling or unpickling."""

    def __init__(self, *, sent=None, read=None):
        self.sent, self.read = sent, read

    def __reduce__(self):
        if self.sent:
            raise self.sent
        return _raised, (self.read,)


def _raised(error):
    raise error


# Includes the errors of a closed channel: an error in a message must not look like a closed
# channel.
RAISED = [OSError("no"), EOFError("no"), TimeoutError("no"), BrokenPipeError("no"), KeyError("no")]


def crosses(sides, message):
    one, other = sides
    sending = threading.Thread(target=one.send, args=(message,))
    sending.start()
    found = other.receive(SECONDS)
    sending.join()
    return found


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_cannot_be_sent_or_read_is_told_and_the_next_message_comes(sides, error):
    one, other = sides
    with pytest.raises(MessageError, match=f"{type(error).__name__}: '?no") as caught:
        one.send([np.ones(9), Odd(sent=error)])
    assert caught.value.reason is error
    one.send([np.ones(9), Odd(read=error)])
    with pytest.raises(MessageError, match=f"{type(error).__name__}: '?no") as caught:
        other.receive(SECONDS)
    assert type(caught.value.reason) is type(error)
    np.testing.assert_array_equal(crosses(sides, np.arange(5)), np.arange(5))


def test_what_there_is_no_memory_for_is_told_and_the_next_message_comes(sides, monkeypatch):
    large = [np.full(300_000, 7), np.full(10, 8), b"x" * 200_000]

    def refuse(shape):
        if shape[0] < 1000:
            raise MemoryError
        return np.empty(shape, np.uint8)

    with monkeypatch.context() as patched:
        patched.setattr(channels, "empty", refuse)
        with pytest.raises(MessageError, match=r"there is no memory for its 2\d{6} bytes"):
            crosses(sides, large)
    found = crosses(sides, large)
    np.testing.assert_array_equal(found[0], large[0])
    assert found[2] == large[2]


@pytest.mark.parametrize("is_sending", [True, False])
def test_memory_that_cannot_be_mapped_is_told_and_the_channel_goes_on(monkeypatch, is_sending):
    array = np.arange(1 << 20, dtype=np.uint8)

    def full(*_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with by_memory() as (one, other):
        with monkeypatch.context() as patch:
            if not is_sending:
                one.send(array)
            patch.setattr(memory_channel.mmap, "mmap", full)
            with pytest.raises(
                MessageError, match=r"no memory for its 1048576 bytes: Cannot"
            ) as it:
                one.send(array) if is_sending else other.receive(SECONDS)
        assert it.value.reason is it.value
        one.send([array, "next"])
        found, text = other.receive(SECONDS)
        assert (found.tolist(), text) == (array.tolist(), "next")


def test_the_memory_of_a_large_message_is_given_back_with_a_small_one(monkeypatch):
    monkeypatch.setattr(memory_channel, "_KEPT", 1 << 20)
    large, medium = np.ones(8 << 20, np.uint8), np.ones(3 << 20, np.uint8)

    def held():
        return os.fstat(one._outgoing._fd).st_blocks * 512

    with by_memory() as (one, other):
        for array, least, most in (
            (large, 8 << 20, 9 << 20),
            (medium, 8 << 20, 9 << 20),  # not much smaller: the next message may be as large
            ("no array", 0, 0),
            (medium, 3 << 20, 4 << 20),
            (large, 8 << 20, 9 << 20),
        ):
            one.send(array)
            found = other.receive(SECONDS)
            assert np.array_equal(found, array)
            assert least <= held() <= most


def test_more_arrays_than_the_other_side_would_take_are_not_sent(sides, monkeypatch):
    one, _ = sides
    monkeypatch.setattr(channels, "_MOST_ARRAYS", 3)
    with pytest.raises(MessageError, match="a message with 4 arrays; expected at most 3") as caught:
        one.send([np.ones(2)] * 2 + [np.zeros(2), np.zeros(3), np.zeros(4)])
    assert caught.value.reason is caught.value
    assert len(crosses(sides, [np.zeros(n) for n in range(3)])) == 3


def test_a_channel_that_is_closed_twice_closes_nothing_of_others(sides):
    before = set(os.listdir("/proc/self/fd"))
    for side in sides:
        side.close()
    after = set(os.listdir("/proc/self/fd"))
    # the same descriptors
    files = [os.open("/proc/self/status", os.O_RDONLY) for _ in before - after]
    for side in sides:
        side.close()
    for file in files:
        assert os.read(file, 4) == b"Name"
        os.close(file)


@pytest.mark.parametrize("call", ["memfd_create", "ftruncate", "dup"])
@pytest.mark.parametrize("successes", [0, 1])
def test_a_channel_that_cannot_be_made_leaves_no_descriptor(monkeypatch, call, successes):
    before = set(os.listdir("/proc/self/fd"))
    left, real = [None] * successes, getattr(os, call)

    def refuse(*arguments):
        if not left:
            raise OSError(24, "Too many open files")
        left.pop()
        return real(*arguments)

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="Too many open files"):
        open_channel()
    assert set(os.listdir("/proc/self/fd")) == before
