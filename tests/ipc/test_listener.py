"""Tests of the listener on another machine, which answers only callers with the key."""

import socket
import threading
from functools import partial

import pytest

from modelflow import Flow
from modelflow.ipc.listener import Listener
from modelflow.ipc.socket_channel import SocketChannel, call
from modelflow.remote.message import Rows
from modelflow.remote.part import PartFlow
from modelflow.remote.replica_process import answer_all

SECONDS = 60.0
GRAPH = """
[graph]
graphconf = '''digraph {
    input [type=input]
    work [flowunit="tests.remote.units:risky"]
    output [type=output]
    input -> work -> output
}'''
"""


@pytest.fixture
def part():
    part = PartFlow(Flow(GRAPH)).start()
    yield part
    part.stop()


@pytest.fixture
def listener(part):
    listener = Listener("127.0.0.1", partial(answer_all, parts={"part": part}))
    yield listener
    listener.stop()


def connected(listener):
    return SocketChannel(call(listener.address, listener.key, SECONDS))


def answer(channel, *values):
    channel.send(
        Rows("part", {"input": (list(values), [None] * len(values))}, [None] * len(values))
    )
    is_good, answers = channel.receive(SECONDS)
    assert is_good, answers
    return answers.columns["output"][0]


def test_batches_of_several_connections_are_answered_each_by_its_own(listener):
    one, other = connected(listener), connected(listener)
    assert answer(one, 1, 2) == [2, 4]
    assert answer(other, 3) == [6]
    assert answer(one, 4) == [8]
    one.close()
    assert answer(other, 5) == [10]
    other.close()


def test_strangers_are_sent_away_and_disturb_nobody(listener):
    channel = connected(listener)
    with socket.create_connection(listener.address) as silent:
        with socket.create_connection(listener.address) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n".ljust(64))
            while stranger.recv(100):
                pass  # until the listener closes the connection
        assert answer(channel, 1) == [2]
        listener.stop()
        assert silent.recv(1) == b""
    channel.close()


def test_of_too_many_strangers_the_one_that_has_had_the_most_time_is_sent_away(
    listener, monkeypatch
):
    monkeypatch.setattr("modelflow.ipc.listener._MOST_STRANGERS", 2)
    silent = [socket.create_connection(listener.address) for _ in range(3)]
    assert silent[0].recv(1) == b""  # at once, while the others may still send
    channel = connected(listener)
    assert answer(channel, 1) == [2]
    for connection in silent:
        connection.close()
    channel.close()


def test_who_comes_when_there_can_be_no_more_threads_is_sent_away_and_the_next_is_not(
    listener, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr("modelflow.ipc.listener.threading.Thread.start", _no_thread)
        with socket.create_connection(listener.address) as refused:
            assert refused.recv(1) == b""
    channel = connected(listener)
    assert answer(channel, 1) == [2]
    channel.close()


def _no_thread(_):
    message = "can't start new thread"
    raise RuntimeError(message)


def ending(listener, seconds=0.01):
    """Makes a listener end without connections; returns the thread, and the list of results."""
    heard = []
    thread = threading.Thread(target=lambda: heard.append(listener.end_when_alone(seconds)))
    thread.start()
    return thread, heard


def test_it_ends_when_nobody_is_connected_any_more_and_lets_nobody_in_then(listener):
    channel = connected(listener)
    assert answer(channel, 1) == [2]
    waiting, heard = ending(listener)
    for _ in range(50):
        assert answer(channel, 1) == [2]
    assert heard == []
    channel.close()
    waiting.join()
    assert heard == [True]
    with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
        connected(listener)


def test_it_does_not_end_while_somebody_is_on_the_way(listener):
    with listener.hold() as is_kept:
        assert is_kept
        waiting, heard = ending(listener)
        waiting.join(0.2)
        assert heard == []
    waiting.join()
    assert heard == [True]
    with listener.hold() as is_kept:
        assert not is_kept


def test_a_stop_ends_what_waits_and_leaves_no_thread(part):
    before = set(threading.enumerate())
    listener = Listener("127.0.0.1", partial(answer_all, parts={"part": part}))
    channel = connected(listener)
    assert answer(channel, 1) == [2]
    waiting, heard = ending(listener, SECONDS)
    listener.stop()
    waiting.join()
    assert heard == [False]
    with pytest.raises(EOFError):
        channel.receive(SECONDS)
    assert set(threading.enumerate()) <= before
    channel.close()
