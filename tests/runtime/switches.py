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
    steps = _Steps(module.__file__, is_locked)
    with untraced():
        # Traced all the time: since Python 3.12, the first traced call of a function has no steps.
        sys.settrace(steps.look)
        try:
            for number in itertools.count():
                own, other, check = make()
                if not steps.run(own, other, number):
                    break
                check()
        finally:
            sys.settrace(None)
    assert number > 1, f"{module.__name__} has no step"


class _Steps:
    """The steps of a thread in a file; the other thread runs before a given step."""

    def __init__(self, file, is_locked):
        self._file, self._is_locked = file, is_locked
        self._left = 0
        self._other = lambda: None

    def run(self, own, other, number):
        """Calls ``own``, and ``other`` before the ``number``-th step, or after all for 0.

        Returns False if ``own`` has fewer steps.
        """
        self._left, self._other = number, other
        own()
        is_met = self._left <= 0
        self._left = 0
        if number == 0:
            other()
        return is_met

    def look(self, frame, event, _):
        if frame.f_code.co_filename != self._file:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self._left > 0 and (self._is_locked or not held()):
            self._left -= 1
            if self._left == 0:
                self._other()
        return self.look
