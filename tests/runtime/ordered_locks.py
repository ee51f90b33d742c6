"""Locks that check the order in which a thread takes them, and record violations.

With ``MODELFLOW_DELAYS=SEED`` in the environment, threads also sleep around some locks. Then they
meet in orders that are rare otherwise.
"""

import itertools
import os
import random
import sys
import threading
import time

from modelflow.runtime import scheduler  # noqa: F401 - whatever makes locks is imported by it
from modelflow.runtime.locks import ORDER
from modelflow.runtime.waiting import Waiting

_here = threading.local()

# The number that makes the delays random, or None for no delays.
DELAYS = os.environ.get("MODELFLOW_DELAYS")
_threads = itertools.count()
# The longest delay in seconds, and the share of the places with a delay.
_LONGEST, _SHARE = 200e-6, 0.1


def _chance():
    """Returns the random numbers of the calling thread."""
    try:
        return _here.chance
    except AttributeError:
        _here.chance = random.Random(f"{DELAYS} {next(_threads)}")
        return _here.chance


def _delay():
    """Lets the calling thread sleep sometimes, if delays are wanted."""
    if DELAYS is not None and _chance().random() < _SHARE:
        time.sleep(_chance().random() * _LONGEST)


def _locks():
    """Returns the locks that the calling thread holds, in the order of their acquisition."""
    try:
        return _here.locks
    except AttributeError:
        _here.locks = []
        return _here.locks


def held():
    """Returns the names of the locks that the calling thread holds."""
    return [lock.name for lock in _locks()]


class OrderedLock:
    """A lock that a thread takes only if all its other locks are earlier in `ORDER`."""

    def __init__(self, name, violations):
        self.name = name
        self._place = ORDER.index(name)
        self._violations = violations
        self._lock = threading.Lock()

    def acquire(self, blocking=True, timeout=-1):
        locks = _locks()
        if locks and locks[-1]._place >= self._place:
            message = f"{self.name!r} is taken by a thread that holds {held()}"
            self._violations.append(message)
            raise AssertionError(message)
        _delay()
        is_taken = self._lock.acquire(blocking, timeout)
        if is_taken:
            locks.append(self)
        return is_taken

    def release(self):
        _locks().remove(self)
        self._lock.release()
        _delay()

    def locked(self):
        """Returns whether a thread holds the lock; `threading.Condition` calls this."""
        return self._lock.locked()

    def _is_owned(self):
        """Returns whether this thread holds the lock; `threading.Condition` calls this."""
        return self in _locks()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


def order_locks(monkeypatch):
    """Makes the runtime use ordered locks; returns the list of the violations from now on."""
    violations = []
    for name, module in list(sys.modules.items()):
        if name.startswith("modelflow.runtime.") and hasattr(module, "make_lock"):
            monkeypatch.setattr(module, "make_lock", lambda name: OrderedLock(name, violations))
    call_due = Waiting.call_due

    def call_due_without_locks(waiting):
        if waiting.due and _locks():
            violations.append(f"callbacks are called by a thread that holds {held()}")
        call_due(waiting)

    monkeypatch.setattr(Waiting, "call_due", call_due_without_locks)
    return violations
