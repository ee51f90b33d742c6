"""A process and what its supervisor makes of its end."""

import asyncio
import os
import signal
import socket

import pytest

from modelflow.serve.replicas.porter import Porter
from modelflow.serve.replicas.process import ReplicaProcess, Role


@pytest.mark.parametrize("way", [ReplicaProcess.kill, ReplicaProcess.finish])
def test_exit_code_is_its_own_however_often_an_ended_process_is_signalled(way):
    async def answer(_process, message):
        return message

    async def codes():
        listening = socket.create_server(("127.0.0.1", 0))
        porter = Porter(listening)
        found = []
        for number in range(1, 6):
            process = ReplicaProcess(
                Role.REPLICA, number, "r", porter, answer, print, print, os.environ
            )
            await process.start(dict, None, lambda: None)
            process.kill()
            for _ in range(2000):  # while the loop cannot hear of the end
                way(process)
            found.append(await process.ended())
        porter.close()
        return found

    assert asyncio.run(codes()) == [-signal.SIGKILL] * 5
