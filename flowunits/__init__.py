"""The built-in flow units, one folder for each unit.

To add a unit, add a folder whose ``__init__.py`` defines ``SPEC`` or ``SPECS``. This file finds it.
"""

import importlib
import pkgutil

from modelflow import FlowUnitSpec

__all__ = ["SPECS"]


def _specs() -> tuple[FlowUnitSpec, ...]:
    found: list[FlowUnitSpec] = []
    for module in pkgutil.iter_modules(__path__):
        package = importlib.import_module(f"{__name__}.{module.name}")
        found.extend(getattr(package, "SPECS", None) or (package.SPEC,))
    return tuple(found)


SPECS = _specs()
