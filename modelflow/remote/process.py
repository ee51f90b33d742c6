"""The process of a replica: it runs its parts, and answers batches on a thread a channel."""

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Sequence

from modelflow.errors import ReplicaLostError
from modelflow.ipc.channel import Channel
from modelflow.ipc.memory_channel import Ends, MemoryChannel
from modelflow.ipc.process import end_with, prepare
from modelflow.remote.answering import answer_all, said
from modelflow.remote.part import started, stop_all

__all__ = ["main", "run"]


def main(arguments: list[str]) -> None:
    """Prepares the process and works until its channels end."""
    *fds, parent = map(int, arguments)
    end_with(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    size = len(Ends._fields)
    run([MemoryChannel(Ends(*fds[at : at + size])) for at in range(0, len(fds), size)])


def run(channels: Sequence[Channel]) -> None:
    """Starts the parts, answers batches, stops the parts."""
    first, *others = channels
    with contextlib.suppress(EOFError, BrokenPipeError):
        preparation, pickled = first.receive()
        try:
            prepare(preparation)
            parts = started(pickle.loads(pickled))
        except Exception as error:  # noqa: BLE001 - it is told to the flow
            first.send((False, ReplicaLostError(said(error))))
            return
        threads: list[threading.Thread] = []
        asking: list[Channel] = []
        try:
            for channel in others:
                thread = threading.Thread(
                    target=answer_all, args=(channel, parts, asking), name="modelflow/replica"
                )
                thread.start()
                threads.append(thread)
        except RuntimeError as error:  # there are too many
            first.send((False, ReplicaLostError(said(error))))
        else:
            first.send((True, os.getpid()))
            answer_all(first, parts, asking)
        finally:
            for thread in threads:
                thread.join()  # their channels end with the first one
            stop_all(parts)
