"""The Python that runs modelflow: whether its threads run Python code at the same time."""

import os
import sys
import sysconfig


def has_lock() -> bool:
    """Returns whether the interpreter has a lock, so one thread at a time runs Python code.

    A free-threaded build starts without the lock. It switches the lock on when it loads an
    extension module that does not declare to need none, unless ``PYTHON_GIL=0`` is set.
    """
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def is_lock_given() -> bool:
    """Returns whether ``PYTHON_GIL`` or ``-X gil`` decides for or against the lock."""
    return "gil" in sys._xoptions or bool(os.environ.get("PYTHON_GIL"))


def is_free_threaded() -> bool:
    """Returns whether this is a build of Python that can run without the lock."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
