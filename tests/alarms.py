"""Signals that come in the middle of a test, and what they ask of the test's process."""

import contextlib
import signal
import sys
import threading


def repeat_until_alarm(use, seconds, *, again=0.0, handler=signal.default_int_handler):
    """Calls ``use`` until what it or the handler of the signal raises: the signal comes after
    ``seconds``, and then every ``again`` seconds.

    Again, since a Ctrl-C that comes where nothing can be raised (in a finaliser, say) is lost; that
    is no failure.
    """
    unraisable = sys.unraisablehook

    def hook(what):
        if what.exc_type is not KeyboardInterrupt:
            unraisable(what)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), again)
        while True:
            use()
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
            sys.unraisablehook = unraisable


@contextlib.contextmanager
def untraced():
    """Traces neither this thread nor those started here: no coverage is measured.

    Python 3.11 keeps a thread that is traced at the entry of a function, running in circles, from
    when a signal has come until the main thread has handled it. The main thread handles none while
    it takes back a lock after a wait: where the one in circles holds that lock, both stay for ever.
    """
    tracer, tracer_of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        threading.settrace(tracer_of_threads)
        sys.settrace(tracer)
