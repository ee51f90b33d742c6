"""The Python that runs modelflow: whether its threads run Python code at the same time."""

import sys
import sysconfig


def has_lock() -> bool:
    """Returns whether the interpreter has a lock, so one thread at a time runs Python code.

    A free-threaded build starts without the lock. It switches the lock on when it loads an
    extension module that does not declare to need none, unless ``PYTHON_GIL=0`` is set.
    """
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def is_free_threaded() -> bool:
    """Returns whether this is a build of Python that can run without the lock."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
