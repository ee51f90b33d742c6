"""The process of a replica: it runs its parts and answers batches on one thread a channel."""

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
    """Answers batches until the other side wants no more, or has gone.

    Until a batch is answered a sign of life is sent once a second: whether something was done
    meanwhile that it waits for; then ``(True, Answers)``, or ``(False, error)``. An `Inquiry` is
    answered with ``(True, Report)``.

    Args:
        channel: By which they come.
        parts: What answers.
        asking: The channels by which reports are asked for, of all who use the replica: only the
            first of them is told figures, so that they are counted once.
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
        except MessageError as error:  # a value's class cannot be found here, say
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
    except OSError:  # nobody hears any more how it goes
        raise
    except Exception as error:  # noqa: BLE001 - the part cannot go on: it is told to the flow
        return False, ReplicaLostError(describe_fault(error))


def _send(channel: Channel, answer: tuple[bool, Any]) -> None:
    try:
        channel.send(answer)
    except MessageError:
        try:
            channel.send((True, portable(answer[1], channel.pickle_message)))
        except MessageError as error:  # each row can be, and all at once cannot
            message = f"an answer cannot be sent to another process: {error}"
            channel.send((False, NotSendableError(message)))


def describe_fault(error: Exception) -> str:
    """Returns what an error says of a part that cannot run, or go on."""
    return str(error) if isinstance(error, FlowFailed) else describe_error(error)


def main(arguments: list[str]) -> None:
    """Prepares the process and works until its channels end."""
    channels = channels_of(arguments)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run(channels)


def run(channels: Sequence[Channel]) -> None:
    """Starts the parts, answers batches, stops the parts."""
    first, *others = channels
    with contextlib.suppress(EOFError, BrokenPipeError):
        try:
            parts = start_parts(read_job(first))
        except Exception as error:  # noqa: BLE001 - it is told to the flow
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
        except RuntimeError as error:  # there are too many
            first.send((False, ReplicaLostError(describe_fault(error))))
        else:
            first.send((True, os.getpid()))
            answer_all(first, parts, asking)
        finally:
            for thread in threads:
                thread.join()  # their channels end with the first one
            stop_all(parts)
