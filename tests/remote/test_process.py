"""Tests of a replica's process that cannot get its resources."""

import threading

from modelflow.errors import ReplicaLostError
from modelflow.ipc.memory_channel import MemoryChannel, open_channel
from modelflow.remote import replica_process as process


class NoThread(threading.Thread):
    """A thread beyond the system's limit."""

    def start(self):
        raise RuntimeError("can't start new thread")


def test_a_process_that_cannot_have_its_threads_is_not_ready_and_says_so(monkeypatch):
    stopped = []
    monkeypatch.setattr(process, "read_job", lambda channel: channel.receive())
    monkeypatch.setattr(process, "start_parts", lambda _: {"part": None})
    monkeypatch.setattr(process, "stop_all", stopped.append)
    pairs = [open_channel() for _ in range(2)]
    theirs = [MemoryChannel(ends) for _, ends in pairs]
    running = threading.Thread(target=process.run, args=(theirs,), name="modelflow/test/process")
    running.start()
    monkeypatch.setattr(process.threading, "Thread", NoThread)
    first = pairs[0][0]
    first.send(())
    is_good, error = first.receive(60)
    running.join()
    assert not is_good
    assert isinstance(error, ReplicaLostError)
    assert "can't start new thread" in str(error)
    assert stopped == [{"part": None}]
    for channel in (*theirs, *(mine for mine, _ in pairs)):
        channel.close()
