"""Where another thread of the process stands: the one place that asks the interpreter."""

import gc
import operator
import sys
import traceback
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from types import FrameType


def find_position(thread_id: int) -> str:
    """Returns ``file:line in function`` of the code that a thread is in; ``""``: it has ended.

    Args:
        thread_id: Its `threading.Thread.ident`.
    """
    frame = _frames().get(thread_id)
    if frame is None:
        return ""
    where = traceback.extract_stack(frame)[-1]
    return f"{where.filename}:{where.lineno} in {where.name}"


def _frames() -> "dict[int, FrameType]":
    """Asks while nothing can be collected.

    Before Python 3.11.9 the interpreter may collect garbage while it makes the answer and holds the
    lock of all its threads. Where a finalizer then lets another thread run, and that one starts a
    third, each waits for the other for ever (https://github.com/python/cpython/issues/106883).
    `map` calls the three one after another without a moment at which another thread might run and
    switch the collector on again.
    """
    calls = (gc.disable, sys._current_frames, gc.enable if gc.isenabled() else gc.disable)
    _, frames, _ = map(operator.call, calls)
    return cast("dict[int, FrameType]", frames)
