"""Messages between processes, whole and torn."""

import asyncio
import socket
from pathlib import Path

import pytest

from modelflow.serve.processes import control_channel
from modelflow.serve.processes.control_channel import (
    LongFrameError,
    frame,
    next_frame,
    read_frame,
)

MESSAGE = {"a": [1, None, "x"], "path": Path("m.dot"), "b": {"c": 2.5}}


def ends(data):
    """Returns a socket with the sent data, whose other end is closed."""
    here, there = socket.socketpair()
    with there:
        there.sendall(data)
    return here


async def read_both(data):
    found = []
    with ends(data) as sock:
        reader, writer = await asyncio.open_connection(sock=sock)
        while (message := await next_frame(reader)) is not None:
            found.append(message)
        writer.close()
        await writer.wait_closed()
    return found


def test_messages_come_as_they_were_sent():
    with ends(frame(MESSAGE) + frame({})) as sock:
        reader = sock.makefile("rb")
        assert [read_frame(reader) for _ in range(3)] == [MESSAGE, {}, None]
    assert asyncio.run(read_both(frame(MESSAGE) + frame({}))) == [MESSAGE, {}]


@pytest.mark.parametrize("length", range(len(frame({"a": 1}))))
def test_a_message_that_is_cut_off_is_the_end(length):
    data = frame({"a": 1})[:length]
    with ends(data) as sock:
        assert read_frame(sock.makefile("rb")) is None
    assert asyncio.run(read_both(data)) == []


def test_a_message_that_is_too_long_is_neither_sent_nor_read(monkeypatch):
    data = frame({"a": "x" * 100})
    monkeypatch.setattr(control_channel, "_MOST", 64)
    with pytest.raises(LongFrameError, match="expected at most 64"):
        frame({"a": "x" * 100})
    with ends(data) as sock, pytest.raises(LongFrameError, match="109 bytes"):
        read_frame(sock.makefile("rb"))
    with pytest.raises(LongFrameError):
        asyncio.run(read_both(data))
