"""Write access to arrays: a unit may write to an array whose memory no other code uses.

No reference is counted. The unit that makes an array says whether it keeps one
(`FlowUnitSpec.hands_over_arrays`), and the buffer remembers the array that is its own.

Example: a unit that hands its arrays over emits ``array`` to one consumer. The consumer may write
to the array itself. If there are two consumers, or if the unit hands nothing over, a consumer that
writes gets a copy.
"""

import numpy as np

from modelflow.buffer import Buffer


def freeze(buffer: Buffer, is_handed_over: bool) -> None:
    """Makes the array of a result read-only, and stores whether no other code uses its memory.

    An array that was read-only before, such as an input or a view of an input, belongs to other
    code. The unit cannot hand that array over.

    Args:
        buffer: A result of a unit.
        is_handed_over: Whether the unit keeps no reference, and a single consumer follows.
    """
    data = buffer.data
    if type(data) is np.ndarray:
        if data.flags.writeable:
            data.flags.writeable = False
            buffer._own = data if is_handed_over else None
        elif not is_handed_over:
            buffer._own = None


def writable(buffer: Buffer) -> Buffer:
    """Returns a buffer with a writable array: the buffer itself, or a copy.

    Copies an array that other code may use, and every tensor or array of a subclass.
    """
    data = buffer.data
    if is_own(buffer):
        data.flags.writeable = True
        return buffer
    if not hasattr(data, "__dlpack__"):  # not an array of any library, but a list or a text
        return buffer
    copy = getattr(data, "clone", None) or getattr(data, "copy", None)
    if copy is None:  # a library with immutable arrays, such as TensorFlow
        return buffer
    copied = Buffer(copy())
    copied.inherit_meta(buffer)
    copied._deadline = buffer._deadline
    return copied


def is_own(buffer: Buffer) -> bool:
    """Returns whether no other code uses the memory of the buffer's array."""
    return buffer._own is not None and buffer._own is buffer.data  # a unit may replace the data
