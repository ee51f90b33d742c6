"""The moment at which a process that was told to end has ended, whatever runs in it."""

import faulthandler
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LAST_SECONDS", "end_within", "limit_exit", "release_at_end"]

LAST_SECONDS = 2.0
"""How long the end of a server may take, beyond the time that it was given to answer."""

_STDERR = 2


class _Limit:
    until = math.inf


_limit = _Limit()


def end_within(seconds: float) -> None:
    """Has the process end within so many seconds, or as soon as an earlier call has said.

    It writes then where its threads stand, and its exit code is 1. That needs no thread of Python:
    one that hangs, in a finalizer of the garbage collector say, cannot prevent it.

    Args:
        seconds: From now on.
    """
    until = time.monotonic() + seconds
    if until < _limit.until:
        _limit.until = until
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)


@contextmanager
def release_at_end() -> Iterator[None]:
    """Takes back at the end of the block what was said in it, until `limit_exit`.

    What was to end has ended then, and a program that is more than that goes on.
    """
    _limit.until = math.inf
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_exit() -> None:
    """Has it count for the interpreter's own end, too, if there was a call of `end_within`."""
    if _limit.until < math.inf:
        seconds = max(0.01, _limit.until - time.monotonic())
        faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
