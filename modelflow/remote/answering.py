"""What a replica does with a channel: it answers the batches that come."""

import contextlib
from collections.abc import Mapping
from typing import Any

from modelflow.errors import FlowFailed, ReplicaLostError, described
from modelflow.ipc.channel import Channel, MessageError
from modelflow.remote.message import Rows, portable
from modelflow.remote.part import PartFlow
from modelflow.remote.replica import NotSendableError, PartEndedError
from modelflow.remote.report import Inquiry, Report

__all__ = ["answer_all", "said"]


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
        return False, ReplicaLostError(said(error))


def _send(channel: Channel, answer: tuple[bool, Any]) -> None:
    try:
        channel.send(answer)
    except MessageError:
        try:
            channel.send((True, portable(answer[1], channel.pickled)))
        except MessageError as error:  # each row can be, and all at once cannot
            message = f"an answer cannot be sent to another process: {error}"
            channel.send((False, NotSendableError(message)))


def said(error: Exception) -> str:
    """Returns what an error says of a part that cannot run, or go on."""
    return str(error) if isinstance(error, FlowFailed) else described(error)
