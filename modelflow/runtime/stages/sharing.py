"""Write access to arrays: a unit may write to an array whose memory no other code uses.

No reference is counted. The unit that makes an array says whether it keeps one
(`FlowUnitSpec.hands_over_arrays`), and the buffer remembers the array that is its own.

Example: a unit that hands its arrays over emits ``array`` to one consumer. The consumer may write
to the array itself. If there are two consumers, or if the unit hands nothing over, a consumer that
writes gets a copy.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.device.pool import Lease


def freeze(buffer: Buffer, is_handed_over: bool) -> None:
    """Makes the array of a result read-only, and stores whether no other code uses its memory.

    An array that was read-only before, such as an input or a view of an input, belongs to other
    code. The same is true for an array on the memory of another library. The unit cannot hand
    these over.

    Args:
        buffer: A result of a unit.
        is_handed_over: Whether the unit keeps no reference, and a single consumer follows.
    """
    data = buffer.data
    if isinstance(data, np.ndarray):
        if data.flags.writeable:
            data.flags.writeable = False
            buffer._own = data if is_handed_over and _is_allocated(data) else None
        elif not is_handed_over:
            buffer._own = None


def writable(buffer: Buffer) -> Buffer:
    """Returns a buffer with a writable array: the buffer itself, or a copy.

    Copies an array that other code may use, and every tensor or array of a subclass.
    """
    data = buffer.data
    if make_writable(buffer):
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


def make_writable(buffer: Buffer) -> bool:
    """Makes the buffer's array writable if no other code uses its memory, and tells whether."""
    if buffer._own is None or buffer._own is not buffer.data:  # a unit may replace the data
        return False
    try:
        buffer.data.flags.writeable = True
    except ValueError:  # the unit has emitted an array and a view of the array
        return False
    return True


def _is_allocated(array: npt.NDArray[Any]) -> bool:
    """Returns whether NumPy, or the pool, has allocated the memory of an array or of its base.

    Other memory may belong to the caller (``np.frombuffer`` of a bytearray, a memmap), or NumPy
    refuses to make it writable again (``tensor.numpy()``).
    """
    owner: Any = array
    while type(owner) is np.ndarray:  # a view, the array, and perhaps the pool's lease
        if owner.flags.owndata:
            return True
        owner = owner.base
    return type(owner) is Lease
