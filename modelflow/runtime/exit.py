"""A flow that is forgotten is stopped when the interpreter ends."""

import logging
import threading
import weakref
from typing import Protocol

from modelflow.errors import FlowFailed

__all__ = ["stop_at_exit"]

logger = logging.getLogger("modelflow")


class Stoppable(Protocol):
    """What can be stopped, more than once."""

    @property
    def is_stopped(self) -> bool:
        """Tells whether it has ended."""

    def stop(self, drain: bool = True) -> None:
        """Ends it."""


_running: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()
_lock = threading.Lock()
_is_registered = False


def stop_at_exit(flow: Stoppable) -> None:
    """Stops ``flow`` at the interpreter's exit, if it is still there then.

    Plain `atexit` is too late: the interpreter first joins every thread that is not a daemon, and
    ours only end when told to. The hook that runs before that join is the one that
    `concurrent.futures` of the standard library uses for the same reason.
    """
    global _is_registered  # noqa: PLW0603 - the hook is the interpreter's, one a process
    with _lock:
        _running.add(flow)
        if not _is_registered:
            threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
            _is_registered = True


def _stop_all() -> None:
    for flow in list(_running):
        if flow.is_stopped:
            continue  # what went wrong has been raised
        try:
            flow.stop(drain=False)
        except FlowFailed:
            logger.exception("a flow that was still running at exit failed")
