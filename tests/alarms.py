"""Signals in the middle of a test, and the cleanup in the test's process."""

import contextlib
import dis
import functools
import itertools
import logging
import signal
import sys
import threading


def repeat_until_alarm(use, seconds, *, again=0.0, handler=signal.default_int_handler):
    """Calls ``use`` until an exception, with a signal after ``seconds`` and every ``again``.

    The exception comes from ``use`` or from the signal's handler. The signal repeats because some
    signals are lost.
    """
    with _some_lost():
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), again)
            while True:
                use()
        finally:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
            finally:
                signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _some_lost():
    """Ignores a Ctrl-C that arrives where Python cannot raise, for example in a finaliser."""
    unraisable = sys.unraisablehook

    def hook(what):
        if what.exc_type is not KeyboardInterrupt:
            unraisable(what)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        _release_logging()


def _release_logging():
    """Releases the locks of `logging` that a Ctrl-C has left with this thread.

    Python acquires each lock before the ``try`` that releases it. Without this function, every
    other thread would wait for the lock for ever, in any test that logs.
    """
    handlers = [each() for each in logging._handlerList]
    for lock in (logging._lock, *(getattr(handler, "lock", None) for handler in handlers)):
        while lock is not None and lock._is_owned():  # the handler of a null logger has no lock
            lock.release()


def is_interrupted_at(number, use):
    """Calls ``use`` with a Ctrl-C at the ``number``-th place at which Python looks for signals.

    On this thread, these places are the entry of a function, the return from a call, and a loop's
    jump back. Returns False if ``use`` has fewer of them.
    """
    seen = 0

    def look(frame, event, _):
        nonlocal seen
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in _places_of(frame.f_code):
            seen += 1
            if seen == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return look

    with untraced(), _some_lost():
        sys.settrace(look)
        try:
            use()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
    return seen >= number  # the signal may have been lost


@functools.cache
def _places_of(code):
    return {
        instruction.offset
        for before, instruction in itertools.pairwise(dis.get_instructions(code))
        if before.opname.startswith(("RESUME", "CALL"))
        or instruction.opname.startswith("JUMP_BACKWARD")
    }


@contextlib.contextmanager
def untraced():
    """Traces neither this thread nor the threads started here, which measures no coverage.

    In Python 3.11, a signal makes a traced thread loop at the entry of a function until the main
    thread has handled the signal. The main thread handles none while it acquires a lock after a
    wait. If the looping thread holds that lock, both threads stay for ever.
    """
    tracer, tracer_of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        threading.settrace(tracer_of_threads)
        sys.settrace(tracer)
