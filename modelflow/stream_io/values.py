"""What a user puts into buffers and gets of them: arrays that nobody else writes to, errors."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded
from modelflow.runtime.stages.exclusive import is_alone


def wrap_input(data: Any, copy: bool = False) -> Buffer:
    """Returns a buffer of our own: what units do to it, the caller's own buffer does not see."""
    buffer = data.twin() if isinstance(data, Buffer) else Buffer(data)
    array = buffer.data
    if type(array) is not np.ndarray:
        return buffer
    if array.flags.writeable:
        # The caller's own array stays writable; units see a read-only view of it.
        buffer.data = array = array.copy() if copy else array.view()
        array.flags.writeable = False
    buffer._is_exclusive = False
    return buffer


def unwrap_output(buffer: Buffer) -> Buffer:
    """Makes the result's array writable again where nobody else can see it."""
    if buffer._is_exclusive and is_alone(buffer):
        buffer.data.flags.writeable = True
    return buffer


def answer_of(found: Mapping[str, Sequence[Buffer]], single_outputs: Collection[str]) -> Any:
    """Makes one answer of what a session has given; see `Flow.infer`.

    Raises:
        FlowUnitError, DeadlineExceeded: a buffer is in error; of several, the first that is.
    """
    answers: dict[str, Buffer | list[Buffer]] = {}
    for output, buffers in found.items():
        for buffer in buffers:
            if buffer.error is not None:
                raise_error(buffer)
        answers[output] = buffers[0] if output in single_outputs else list(buffers)
    return next(iter(answers.values())) if len(answers) == 1 else answers


def check_errors(errors: str) -> None:
    """Checks what a caller wants of errors; see `Flow.map`.

    Raises:
        ValueError: it is neither ``raise`` nor ``return``.
    """
    if errors not in ("raise", "return"):
        raise ValueError(f"errors: got {errors!r}; expected 'raise' or 'return'")


def raise_error(buffer: Buffer) -> None:
    """Raises what a buffer in error is in error for.

    Raises:
        FlowUnitError, DeadlineExceeded: always.
    """
    error = buffer.error
    assert error is not None  # the caller has looked
    if isinstance(error.__cause__, DeadlineExceeded):
        raise DeadlineExceeded(str(error)) from error
    raise error
