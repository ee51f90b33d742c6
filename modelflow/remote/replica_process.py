"""The process of a replica, which runs the parts and answers batches, a thread a channel."""

import contextlib
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.errors import FlowFailed, ReplicaLostError, describe_error
from modelflow.ipc.channel import Channel, MessageError
from modelflow.ipc.process import channels_of, read_job
from modelflow.remote.message import Rows, portable
from modelflow.remote.part import PartFlow, start_parts, stop_all
from modelflow.remote.replica import Inquiry, NotSendableError, PartEndedError, Report


def answer_all(
    channel: Channel, parts: Mapping[str, PartFlow], asking: list[Channel] | None = None
) -> None:
    """Answers batches until the other side sends None or closes the channel.

    Until a batch is answered, a sign of life is sent at least once a second. It says whether a row
    was done since the last sign that the batch waits for. Then follows ``(True, Answers)`` or
    ``(False, error)``. An `Inquiry` is answered with ``(True, Report)``.

    Args:
        channel: The channel of the batches.
        parts: The running parts.
        asking: The channels that asked for reports, of all users of the replica. Only the first
            of them gets the statistics, which are then counted once.
    """
    asking = [] if asking is None else asking
    with contextlib.suppress(EOFError, OSError):
        _answer_all(channel, parts, asking)
    if channel in asking:
        asking.remove(channel)


def _answer_all(channel: Channel, parts: Mapping[str, PartFlow], asking: list[Channel]) -> None:
    while True:
        try:
            rows = channel.receive()
        except MessageError as error:  # for example, this process cannot import a value's class
            message = f"a row cannot be read in another process: {error}"
            channel.send((False, NotSendableError(message)))
            continue
        if rows is None:
            return
        if isinstance(rows, Inquiry):
            if channel not in asking:
                asking.append(channel)
            channel.send((True, Report.of(parts if asking[0] is channel else {})))
            continue
        _send(channel, _answer(channel, rows, parts))


def _answer(channel: Channel, rows: Rows, parts: Mapping[str, PartFlow]) -> tuple[bool, Any]:
    try:
        return True, parts[rows.part].answer(rows, channel.send)
    except PartEndedError as error:
        return False, error
    except OSError:  # the other side has gone
        raise
    except Exception as error:  # noqa: BLE001 - the part has failed, and the flow gets the error
        return False, ReplicaLostError(describe_fault(error))


def _send(channel: Channel, answer: tuple[bool, Any]) -> None:
    try:
        channel.send(answer)
    except MessageError:
        try:
            channel.send((True, portable(answer[1], channel.pickle_message)))
        except MessageError as error:  # each row can be sent, but not all together
            message = f"an answer cannot be sent to another process: {error}"
            channel.send((False, NotSendableError(message)))


def describe_fault(error: Exception) -> str:
    """Returns the message of an error that ended a part or prevented its start."""
    return str(error) if isinstance(error, FlowFailed) else describe_error(error)


def main(arguments: list[str]) -> None:
    """Prepares the process and answers batches until the channels end."""
    channels = channels_of(arguments)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run(channels)


def run(channels: Sequence[Channel]) -> None:
    """Starts the parts, answers batches, and stops the parts."""
    first, *others = channels
    with contextlib.suppress(EOFError, BrokenPipeError):
        try:
            parts = start_parts(read_job(first))
        except Exception as error:  # noqa: BLE001 - sent to the flow
            first.send((False, ReplicaLostError(describe_fault(error))))
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
        except RuntimeError as error:  # too many threads
            first.send((False, ReplicaLostError(describe_fault(error))))
        else:
            first.send((True, os.getpid()))
            answer_all(first, parts, asking)
        finally:
            for thread in threads:
                thread.join()  # their channels end with the first one
            stop_all(parts)
