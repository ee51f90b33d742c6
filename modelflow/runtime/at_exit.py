"""A flow that is forgotten is stopped when the interpreter ends, and is none of a fork's child.

The threads of a flow are daemons, because a unit that hangs must not keep the interpreter from
ending; whoever starts a flow stops it, and who forgets to has it stopped here.
"""

import logging
import os
import threading
import weakref
from typing import Protocol

from modelflow.errors import FlowFailed, RecordingError

__all__ = ["stop_at_exit"]

logger = logging.getLogger("modelflow")


class Stoppable(Protocol):
    """What can be stopped, more than once."""

    @property
    def is_stopped(self) -> bool:
        """Tells whether it has ended."""

    def stop(self, drain: bool = True) -> None:
        """Ends it."""

    def disown(self) -> None:
        """Notes that this process is a fork, and has none of its threads."""


_running: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()
_lock = threading.Lock()
_is_registered = False


def stop_at_exit(flow: Stoppable) -> None:
    """Stops ``flow`` at the interpreter's exit, if it is still there then.

    Plain `atexit` is too late: the interpreter first joins every thread that is no daemon, one of
    an executor that waits in `recv` among them, and such a thread ends when its flow does. The hook
    that runs before that join is the one that `concurrent.futures` of the standard library uses.
    """
    global _is_registered  # noqa: PLW0603 - the hook is the interpreter's, one a process
    with _lock:
        _running.add(flow)
        if not _is_registered:
            threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
            os.register_at_fork(after_in_child=_disown_all)
            _is_registered = True


def _stop_all() -> None:
    for flow in list(_running):
        if flow.is_stopped:
            continue  # what went wrong has been raised
        try:
            flow.stop(drain=False)
        except (FlowFailed, RecordingError):
            logger.exception("a flow that was still running at exit failed")


def _disown_all() -> None:
    """In the child of a fork: its parent's flows are not its own, and their locks may be held."""
    global _lock  # noqa: PLW0603 - the parent may have held it
    _lock = threading.Lock()
    for flow in list(_running):
        flow.disown()
    _running.clear()
