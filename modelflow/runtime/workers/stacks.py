"""The current code position of another thread, from the interpreter's stack frames."""

import gc
import operator
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from types import FrameType


def find_position(thread_id: int) -> str:
    """Returns ``file:line in function`` of the code that a thread runs, or ``""`` after its end.

    Args:
        thread_id: The `threading.Thread.ident` of the thread.
    """
    frame = _frames().get(thread_id)
    if frame is None:
        return ""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


# Later versions of Python collect no garbage inside `sys._current_frames`.
_IS_COLLECTING = sys.hexversion < 0x030B0900


def _frames() -> "dict[int, FrameType]":
    """Returns the frames of all threads, with an old garbage collector switched off meanwhile.

    Before Python 3.11.9, `sys._current_frames` holds the lock of all threads and may collect
    garbage. If a finalizer then lets another thread run, and that thread starts a third thread,
    both wait for each other forever (https://github.com/python/cpython/issues/106883). `map` calls
    the three functions without a moment at which another thread can run and switch the collector
    on. Without the interpreter's lock there is such a moment, but no such Python.
    """
    if not _IS_COLLECTING:
        return sys._current_frames()
    calls = (gc.disable, sys._current_frames, gc.enable if gc.isenabled() else gc.disable)
    _, frames, _ = map(operator.call, calls)
    return cast("dict[int, FrameType]", frames)
