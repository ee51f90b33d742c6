"""The built-in flow units, one folder for each unit.

To add a unit, add a folder of its name whose ``__init__.py`` defines ``SPEC``. This file finds it.
A graph imports only its own units.
"""

import importlib
import pkgutil

from modelflow import FlowUnitSpec

__all__ = ["SPECS"]


SPECS: tuple[FlowUnitSpec, ...]


def __getattr__(name: str) -> tuple[FlowUnitSpec, ...]:
    if name != "SPECS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    found = tuple([importlib.import_module(f"{__name__}.{module}").SPEC for module in modules])
    globals()["SPECS"] = found
    return found
