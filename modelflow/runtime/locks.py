"""The locks of the runtime, and the order in which one thread may take them.

A thread that holds a lock takes only locks that are later in `ORDER`. Therefore no two threads can
wait for each other. Callbacks of users and of the runtime itself (`Waiting`) run while no lock is
held. The tests replace `make_lock` by a version that checks the order at each acquisition.
"""

import sys
import threading

# From outer to inner locks. A thread never takes two locks with the same name together.
ORDER = (
    "entrance",
    "outbox",
    "merge",
    "inbox",
    "progress",
    "results",
    "request batch",
    "in_flight",
    "scheduler",
)


# A Ctrl-C may interrupt a wait on a condition at any point. Only an RLock knows whether this thread
# holds it then. With a plain lock, the thread could release a lock that another thread holds.
Lock = threading.RLock
# the class itself, because `threading.RLock` is a slower function around it
_new = type(threading.RLock())


class _Lock(_new):  # type: ignore[misc, valid-type]
    """A lock for Python 3.14, where ``with`` may lose a lock.

    There, a Ctrl-C may come after the lock is taken and before the block begins. The lock would
    then be held for ever (https://github.com/python/cpython/issues/148874).
    """

    __slots__ = ()

    def __enter__(self) -> bool:
        # `with` looks for no signal after a method in Python.
        try:
            return bool(self.acquire())
        except BaseException:
            if self._is_owned():
                self.release()
            raise


_kind = _Lock if sys.version_info[:2] == (3, 14) else _new


def make_lock(name: str) -> Lock:  # noqa: ARG001 - for replacements of this function
    """Returns a new lock; ``name`` is its place in `ORDER`."""
    lock: Lock = _kind()
    return lock
