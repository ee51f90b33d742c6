"""Flow units: the reusable operations of a graph, their descriptions, and how they are found.

``modelflow.flowunit`` is this package and the decorator too: see
`modelflow.flowunit.function.flowunit`.
"""

import sys
from types import ModuleType
from typing import Any

__all__: list[str] = []


class _Decorator(ModuleType):
    """The package, callable: importing a module of it binds the decorator's name to the package."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Does what `modelflow.flowunit.function.flowunit` does."""
        from modelflow.flowunit.function import flowunit

        return flowunit(*args, **options)


sys.modules[__name__].__class__ = _Decorator
