"""Tests of a child process, and of the supervisor's view of its end."""

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from modelflow.serve.processes.role import Role
from modelflow.serve.processes.supervisor.acceptor import Acceptor
from modelflow.serve.processes.supervisor.child import ChildServer


@pytest.mark.parametrize("way", [ChildServer.kill, ChildServer.finish])
def test_exit_code_is_its_own_however_often_an_ended_process_is_signalled(way):
    async def answer(_process, message):
        return message

    async def codes():
        listening = socket.create_server(("127.0.0.1", 0))
        acceptor = Acceptor(listening)
        found = []
        for number in range(1, 6):
            process = ChildServer(
                Role.REPLICA, number, "r", acceptor, answer, print, print, os.environ
            )
            await process.start(dict, None, lambda: None, print)
            process.kill()
            for _ in range(2000):  # while the loop cannot notice the end
                way(process)
            found.append(await process.wait_until_ended())
        acceptor.close()
        return found

    assert asyncio.run(codes()) == [-signal.SIGKILL] * 5


def test_a_process_that_stands_still_is_killed(monkeypatch, caplog):
    """Stops a real process before the process can answer anything."""
    monkeypatch.setattr("modelflow.serve.processes.supervisor.child._BEGIN_SECONDS", 0.2)

    async def answer(_process, message):
        return message

    async def main():
        acceptor = Acceptor(socket.create_server(("127.0.0.1", 0)))
        process = ChildServer(
            Role.REPLICA, 1, "replica 1", acceptor, answer, print, print, os.environ
        )
        before = children()
        await process.start(dict, None, lambda: None, print)
        for child in children() - before:
            os.kill(child, signal.SIGSTOP)
        await process.watch()
        code = await process.wait_until_ended()
        acceptor.close()
        return code

    assert asyncio.run(main()) == -signal.SIGKILL
    assert "replica 1 has not answered for 0.2 s, and is killed" in caplog.text


def children():
    path = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
    return {int(one) for one in path.read_text().split()}
