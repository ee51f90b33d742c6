"""Checks of the leftovers of a run, taken before and after."""

import contextlib
import os
import threading
import time
from pathlib import Path

LONG = 60.0  # seconds until a hanging process is given up


def traces():
    """Returns the threads, children, and descriptors (shared memory among them) of this process."""
    return {
        "threads": {t.name for t in threading.enumerate() if t.name.startswith("modelflow")},
        "children": _children(os.getpid()),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def _children(pid):
    found: set[str] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            found.update(task.read_text().split())
    return found


def of_session(leader):
    """Returns the processes, but zombies, of a session that was started for one program."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(") ")
        except OSError:  # the process has ended
            continue
        state, _, _, session, *_ = rest.split()
        if int(session) == leader and state != "Z":
            found.add(int(stat.parent.name))
    return found


def soon(condition):
    """Returns whether ``condition`` comes true in time; ending may take a moment."""
    end = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
