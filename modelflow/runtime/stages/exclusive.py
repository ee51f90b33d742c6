"""Write access to arrays: a unit may write to an array whose memory no other code uses.

Example: a unit emits ``array``, which owns its memory, to one consumer and keeps no reference. The
consumer may write to the array itself. If the unit emits ``table[3]``, a view, the consumer gets a
copy to write to.
"""

import sys

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device.pool import Lease


def freeze(buffer: Buffer, is_single: bool) -> None:
    """Makes the buffer's array read-only, and stores whether only a single consumer follows."""
    data = buffer.data
    if type(data) is np.ndarray:
        if data.flags.writeable:
            data.flags.writeable = False
            buffer._is_exclusive = is_single
        elif not is_single:
            buffer._is_exclusive = False


def writable(buffer: Buffer) -> Buffer:
    """Returns a buffer with a writable array: the buffer itself, or a copy.

    Copies an array that other code uses. Always copies a tensor or an array of a subclass, because
    it may not own its memory.
    """
    data = buffer.data
    if type(data) is np.ndarray:
        if data.flags.writeable:
            return buffer
        del data
        if is_alone(buffer):
            buffer.data.flags.writeable = True
            return buffer
    elif not hasattr(data, "__dlpack__"):  # not an array of any library, but a list or a text
        return buffer
    copy = getattr(buffer.data, "clone", None) or getattr(buffer.data, "copy", None)
    if copy is None:  # a library with immutable arrays, such as TensorFlow
        return buffer
    copied = Buffer(copy())
    copied.inherit_meta(buffer)
    copied._deadline = buffer._deadline
    return copied


def is_alone(buffer: Buffer) -> bool:
    """Returns whether the buffer has the only reference to an array that owns its memory.

    False for a view, such as ``tensor.numpy()``, because other code may use the same memory.
    """
    return (
        buffer._is_exclusive
        and type(buffer.data) is np.ndarray  # the unit may have replaced the data
        and (buffer.data.flags.owndata or type(buffer.data.base) is Lease)
        and _references(buffer) <= _ALONE
    )


def _references(buffer: Buffer) -> int:
    return sys.getrefcount(buffer.data)


def counts_references() -> bool:
    """Returns whether reference counts are exact, which they are not in a build without the GIL."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


# The result of `_references` for an array without other references. Interpreters differ in it.
_ALONE = _references(Buffer(np.empty(0))) if counts_references() else -1
