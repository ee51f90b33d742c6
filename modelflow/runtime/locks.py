"""The locks of the runtime, and the order in which one thread may take them.

A thread that holds a lock takes only locks that stand further down in `ORDER`; so no two threads
can wait for each other. Callbacks of users, and of the runtime itself (`Waiting`), run while no
lock is held. The tests replace `make_lock` by one that checks the order at each acquisition.
"""

import threading

# Down to the leaves. Two locks of one name are never taken together.
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


# Whose wait on a condition a Ctrl-C breaks off has it again: a plain lock need not be, and would
# then be let go for another thread that holds it.
Lock = threading.RLock
_new = type(threading.RLock())  # itself: the name above is a function around it


def make_lock(name: str) -> Lock:  # noqa: ARG001 - for those that replace it
    """Returns a new lock; ``name`` is its place in `ORDER`."""
    return _new()
