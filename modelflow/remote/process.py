"""The process of a replica: it runs its parts, and answers batches on a thread a channel."""

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.errors import FlowFailed, described
from modelflow.ipc.channel import Channel, Ends
from modelflow.ipc.process import end_with, prepare
from modelflow.remote.message import Rows, portable
from modelflow.remote.part import Part, PartFlow
from modelflow.remote.replica import NotSendableError, PartEndedError, ReplicaLostError

__all__ = ["main", "run"]


def main(arguments: list[str]) -> None:
    """Prepares the process and works until its channels end."""
    *fds, parent = map(int, arguments)
    end_with(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    size = len(Ends._fields)
    run([Channel(Ends(*fds[at : at + size])) for at in range(0, len(fds), size)])


def run(channels: Sequence[Channel]) -> None:
    """Starts the parts, answers batches, stops the parts."""
    first, *others = channels
    with contextlib.suppress(EOFError, BrokenPipeError):
        preparation, pickled = first.receive()
        parts: dict[str, PartFlow] = {}
        try:
            prepare(preparation)
            found: tuple[Part, ...] = pickle.loads(pickled)
            for part in found:
                parts[part.name] = PartFlow.of(part).start()
        except Exception as error:  # noqa: BLE001 - it is told to the flow
            first.send((False, ReplicaLostError(_said(error))))
            _stop(parts)
            return
        first.send((True, os.getpid()))
        threads = [
            threading.Thread(target=_work, args=(channel, parts), name="modelflow/replica")
            for channel in others
        ]
        for thread in threads:
            thread.start()
        try:
            _work(first, parts)
        finally:
            for thread in threads:
                thread.join()
            _stop(parts)


def _work(channel: Channel, parts: Mapping[str, PartFlow]) -> None:
    """Answers batches until there are none."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            try:
                rows = channel.receive()
            except (EOFError, OSError):
                raise
            except Exception as error:  # noqa: BLE001 - of a class that is not here, or worse
                message = f"a row cannot be read in another process: {described(error)}"
                channel.send((False, NotSendableError(message)))
                continue
            if rows is None:
                return
            _send(channel, _answer(channel, rows, parts))


def _answer(channel: Channel, rows: Rows, parts: Mapping[str, PartFlow]) -> tuple[bool, Any]:
    try:
        # None: something moves.
        return True, parts[rows.part].answer(rows, on_move=lambda: channel.send(None))
    except (PartEndedError, OSError) as error:
        return False, error
    except Exception as error:  # noqa: BLE001 - the part cannot go on: it is told to the flow
        return False, ReplicaLostError(_said(error))


def _send(channel: Channel, answer: tuple[bool, Any]) -> None:
    try:
        channel.send(answer)
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - whatever a value's class does when it is pickled
        channel.send((True, portable(answer[1], pickle.dumps)))


def _stop(parts: Mapping[str, PartFlow]) -> None:
    for part in parts.values():
        part.stop()


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, FlowFailed) else described(error)
