"""Removes the user's own modules from `sys.modules`, to import their present contents later."""

import importlib
import sys
from collections.abc import Collection
from pathlib import Path

from modelflow.errors import is_users
from modelflow.registry.folder_modules import is_of_folder, release
from modelflow.unit.function import forget_declared


def users_modules(before: Collection[str] = ()) -> dict[str, Path]:
    """Returns the modules that are the user's own code, with their files.

    Args:
        before: Names of modules to leave out.
    """
    return {
        name: Path(file)
        for name, module in list(sys.modules.items())
        if name not in before
        and name != "__main__"
        and isinstance(file := getattr(module, "__file__", None), str)
        and is_users(file)
    }


def forget_modules(before: Collection[str]) -> None:
    """Removes the user's modules that were imported after ``before``, and the units in them."""
    forget_named({*users_modules(before), *filter(is_of_folder, sys.modules)} - {*before})


def forget_named(names: Collection[str]) -> None:
    """Removes modules by their names, and the units in them; existing references stay valid."""
    forget_declared(names)
    release(names)
    for name in names:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
