"""Conversions between the values of a user and buffers, with protection of arrays, and errors."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded
from modelflow.runtime.stages.sharing import make_writable


def wrap_input(data: Any, copy: bool = False) -> Buffer:
    """Returns a separate buffer for the data, so units never change the caller's buffer."""
    buffer = data.twin() if isinstance(data, Buffer) else Buffer(data)
    array = buffer.data
    if not isinstance(array, np.ndarray):
        return buffer
    if array.flags.writeable:
        # The caller's own array stays writable; units get a read-only view of the array.
        buffer.data = array = array.copy() if copy else array.view()
        array.flags.writeable = False
    buffer._own = None
    return buffer


def unwrap_output(buffer: Buffer) -> Buffer:
    """Makes the array of a result writable again if no other code uses the memory."""
    if buffer._own is not None:
        make_writable(buffer)
    return buffer


def answer_of(found: Mapping[str, Sequence[Buffer]], single_outputs: Collection[str]) -> Any:
    """Returns the answer of a request from the buffers of its outputs; see `Flow.infer`.

    Raises:
        FlowUnitError, DeadlineExceeded: A buffer is in error. The first such error is raised.
    """
    answers: dict[str, Buffer | list[Buffer]] = {}
    for output, buffers in found.items():
        for buffer in buffers:
            if buffer.error is not None:
                raise_error(buffer)
        answers[output] = buffers[0] if output in single_outputs else list(buffers)
    return next(iter(answers.values())) if len(answers) == 1 else answers


def check_errors(errors: str) -> None:
    """Checks the argument ``errors`` of a call; see `Flow.map`.

    Raises:
        ValueError: The value is neither ``raise`` nor ``return``.
    """
    if errors not in ("raise", "return"):
        raise ValueError(f"errors: got {errors!r}; expected 'raise' or 'return'")


def raise_error(buffer: Buffer) -> None:
    """Raises the error of a buffer.

    Raises:
        FlowUnitError, DeadlineExceeded: Always.
    """
    error = buffer.error
    assert error is not None  # the caller checked `error`
    if isinstance(error.__cause__, DeadlineExceeded):
        raise DeadlineExceeded(str(error)) from error
    raise error
