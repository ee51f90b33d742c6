"""The messages to a replica and back: rows, and the result of each row.

Arrays are not stacked. The channel carries each array as it is, out of band. An error is sent as
its message, and not as an instance of an exception class (`modelflow.ipc.cause`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError, describe_error
from modelflow.ipc.cause import Cause, cause_of
from modelflow.ipc.channel import MessageError, sendable
from modelflow.runtime.session import watcher

Meta = dict[str, Any] | None
Column = tuple[list[Any], list[Meta]]


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch that is sent to a replica.

    Attributes:
        part: The remote node that sends the batch.
        columns: For each input of the part, the data and the meta of each row.
        remaining: Seconds until the deadline of each row; None without a deadline. A duration and
            no time, because the clocks of machines may differ.
        watched: The places of the rows whose calls are to be reported.
    """

    part: str
    columns: Mapping[str, Column]
    remaining: Sequence[float | None]
    watched: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.remaining)

    def row(self, place: int) -> "Rows":
        """Returns one row as a batch."""
        at = slice(place, place + 1)
        columns = {port: (data[at], metas[at]) for port, (data, metas) in self.columns.items()}
        watched = (0,) if place in self.watched else ()
        return Rows(self.part, columns, self.remaining[at], watched=watched)


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in the place of a row's data.

    Attributes:
        message: The message of the unit of ``node``.
        node, unit, phase, is_refusal, session, where: The same as in `FlowUnitError`.
        is_late: Whether a deadline has passed.
        cause: The exception of the unit; None if the unit raised none.
    """

    message: str
    node: str
    unit: str
    phase: str = "process"
    is_refusal: bool = False
    is_late: bool = False
    session: str | None = None
    where: str = ""
    cause: Cause | None = None

    def error(self) -> FlowUnitError:
        """Returns the error for the local flow, with the name of the node inside the part."""
        error = FlowUnitError(
            describe_error(DeadlineExceeded(self.message)) if self.is_late else self.message,
            node=self.node,
            unit=self.unit,
            phase=self.phase,
            session=self.session,
            is_refusal=self.is_refusal,
            where=self.where,
        )
        if self.is_late:
            error.__cause__ = DeadlineExceeded(self.message)
        elif self.cause is not None:
            error.__cause__ = self.cause.exception()
        return error


class Several(NamedTuple):
    """All buffers of an output for one row, where a row can have any number of them."""

    data: list[Any]
    metas: list[Meta]


class Done(NamedTuple):
    """A call of a unit for a watched row.

    Attributes:
        row: The place of the row in its batch.
        call: The call, with times in seconds since the batch arrived, and without its error.
        fault: The error of the row in this call; None if the row did not fail.
    """

    row: int
    call: watcher.Part
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class Answers:
    """The results of a batch.

    Attributes:
        columns: For each output of the part, the data (or `Fault`) and the meta of each row.
        seconds: Seconds from the arrival of the batch to these answers.
        under_way: Number of other batches in the replica at that time, of all its users.
        done: The calls for the watched rows.
    """

    columns: Mapping[str, Column]
    seconds: float = 0.0
    under_way: int = 0
    done: Sequence[Done] = ()


def rows_of(part: str, inputs: Mapping[str, Sequence[Buffer]], now: float) -> Rows:
    """Returns the portable form of a batch.

    Args:
        part: The remote node.
        inputs: The inputs of the unit.
        now: The time of the clock, to compute the time until the deadlines.
    """
    remaining = [_remaining(part, row, now) for row in zip(*inputs.values(), strict=True)]
    return Rows(part, {port: column_of(buffers) for port, buffers in inputs.items()}, remaining)


def _remaining(part: str, row: Sequence[Buffer], now: float) -> float | None:
    errors = (buffer.error for buffer in row if buffer.error is not None)
    if any(one.node == part and isinstance(one.__cause__, DeadlineExceeded) for one in errors):
        return 0.0  # late here, and late inside: units there that accept errors still get the row
    due = min((b._deadline for b in row if b._deadline is not None), default=None)
    return None if due is None else max(0.0, due - now)


def column_of(buffers: Sequence[Buffer]) -> Column:
    """Returns data and meta of buffers; a buffer in error has a `Fault` as data.

    Buffers may share a meta. It stays one object in the column, and is then sent once.
    """
    data = [sendable(b.to("cpu").data) if b.error is None else fault_of(b.error) for b in buffers]
    return data, [buffer._meta or None for buffer in buffers]


def fault_of(error: FlowUnitError) -> Fault:
    """Returns the portable form of an error."""
    is_late = isinstance(error.__cause__, DeadlineExceeded)
    said = str(error.__cause__) if is_late else error.message
    return Fault(
        said,
        error.node,
        error.unit,
        error.phase,
        error.is_refusal,
        is_late,
        error.session,
        error.where,
        None if is_late else cause_of(error),
    )


def buffers_of(column: Column) -> list[Buffer]:
    """Returns the buffers of a received column."""
    return [_buffer(data, meta) for data, meta in zip(*column, strict=True)]


def _buffer(data: Any, meta: Meta) -> Buffer:
    if isinstance(data, Fault):
        return Buffer.from_error(data.error(), meta)
    return Buffer.from_error(data, meta) if isinstance(data, FlowUnitError) else Buffer(data, meta)


def portable(answers: Answers, pickled: Callable[[Any], object]) -> Answers:
    """Returns answers with an error in the place of each value that cannot be sent.

    Args:
        answers: The results of a batch.
        pickled: Pickles a value, as `Channel.pickle_message`.
    """
    columns: dict[str, Column] = {}
    for output, (data, metas) in answers.columns.items():
        node = output.rpartition(".")[0]
        cells = [
            _sendable(value, meta, node, pickled) for value, meta in zip(data, metas, strict=True)
        ]
        columns[output] = [cell[0] for cell in cells], [cell[1] for cell in cells]
    return replace(answers, columns=columns)


# Types of which every value can be sent.
_PLAIN = (bytes, str, int, float, bool, type(None), Fault)


def _sendable(
    value: Any, meta: Meta, node: str, pickled: Callable[[Any], object]
) -> tuple[Any, Meta]:
    for what, told in (("its data", value), ("its meta", meta)):
        if type(told) in _PLAIN:
            continue
        try:
            pickled(told)
        except MessageError as error:
            message = f"{what} cannot be sent to another process: {error}"
            return Fault(message, node, "remote", "transfer"), None
    return value, meta
