"""The locks of the runtime, and the order in which one thread may take them.

A thread that holds a lock takes only locks that are later in `ORDER`. Therefore no two threads can
wait for each other. Callbacks of users and of the runtime itself (`Waiting`) run while no lock is
held. The tests replace `make_lock` by a version that checks the order at each acquisition.
"""

import threading

from modelflow.signals import new_lock

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


def make_lock(name: str) -> Lock:  # noqa: ARG001 - for replacements of this function
    """Returns a new lock; ``name`` is its place in `ORDER`."""
    return new_lock()
