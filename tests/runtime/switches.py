"""The work of another thread between any two steps of a thread, tried at every place."""

import itertools
import sys

from tests.alarms import untraced
from tests.runtime.ordered_locks import held


def switch_everywhere(module, make, *, is_locked=False):
    """Checks that another thread may do its work before every step in the code of ``module``.

    ``make()`` returns three functions: the thread's own work, the other thread's work, and a check
    of the result. Both threads are this thread, so a failure is the same every time. A thread that
    holds a lock of the runtime keeps out the other thread, unless ``is_locked``.
    """
    for number in itertools.count(1):
        own, other, check = make()
        is_met = _meets(number, module.__file__, own, other, is_locked)
        if not is_met:
            break
        check()
    assert number > 1, f"{module.__name__} has no step"


def _meets(number, file, own, other, is_locked):
    seen = 0

    def look(frame, event, _):
        nonlocal seen
        if frame.f_code.co_filename != file:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and (is_locked or not held()):
            seen += 1
            if seen == number:
                sys.settrace(None)
                other()
        return look

    with untraced():
        sys.settrace(look)
        try:
            own()
        finally:
            sys.settrace(None)
    return seen >= number
