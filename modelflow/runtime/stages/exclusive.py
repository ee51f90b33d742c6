"""Who may write to an array: a unit or caller that no other one shares its memory with.

A unit gives ``array``, which owns its memory, to one consumer and forgets it: the consumer may
write to it. It gives ``table[3]``, a view: the consumer gets a copy where it wants to write.
"""

import sys

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device.pool import Lease


def freeze(buffer: Buffer, is_single: bool) -> None:
    """Makes the buffer's array read-only; notes whether its next consumer is the only one."""
    data = buffer.data
    if type(data) is np.ndarray:
        if data.flags.writeable:
            data.flags.writeable = False
            buffer._is_exclusive = is_single
        elif not is_single:
            buffer._is_exclusive = False


def writable(buffer: Buffer) -> Buffer:
    """Gives a buffer whose array may be written: the same where nobody else sees it, or a copy.

    A tensor, or an array of a subclass, is copied always: whether it owns its memory is not known.
    """
    data = buffer.data
    if type(data) is np.ndarray:
        if data.flags.writeable:
            return buffer
        del data
        if is_alone(buffer):
            buffer.data.flags.writeable = True
            return buffer
    elif not hasattr(data, "__dlpack__"):  # no array of any library: lists and texts, say
        return buffer
    copy = getattr(buffer.data, "clone", None) or getattr(buffer.data, "copy", None)
    if copy is None:  # of a library whose arrays nobody writes to, as TensorFlow's
        return buffer
    copied = Buffer(copy())
    copied.inherit_meta(buffer)
    copied._deadline = buffer._deadline
    return copied


def is_alone(buffer: Buffer) -> bool:
    """Tells whether a unit made the buffer's array, with its memory, and nobody else refers to it.

    A view shares memory that others may see, as does ``tensor.numpy()``: it is never alone.
    """
    return (
        buffer._is_exclusive
        and type(buffer.data) is np.ndarray  # the unit may have put something else there
        and (buffer.data.flags.owndata or type(buffer.data.base) is Lease)
        and _references(buffer) <= _ALONE
    )


def _references(buffer: Buffer) -> int:
    return sys.getrefcount(buffer.data)


def counts_references() -> bool:
    """Tells whether reference counts can be relied on: not in a build without the lock."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


# What `_references` says of an array that nobody else has: it differs between interpreters.
_ALONE = _references(Buffer(np.empty(0))) if counts_references() else -1
