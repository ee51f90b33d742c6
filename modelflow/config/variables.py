r"""``${NAME}`` in the texts of a graph file: the environment's; ``\${`` stands for itself."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from modelflow.errors import did_you_mean

__all__ = ["escaped", "expanded"]

_VARIABLE = re.compile(r"(\\?)\$\{(\w+)\}")

Path = tuple[str | int, ...]
# Told of a variable that is not there: the way to the text, and the sentence.
Report = Callable[[Path, str], None]


def expanded(
    value: Any, report: Report, path: Path = (), keep: frozenset[Path] = frozenset()
) -> Any:
    r"""Returns ``value`` with ``${NAME}`` replaced in every text.

    Args:
        value: Texts in mappings and lists, in any depth.
        report: Called for each variable that the environment does not have; its text stays.
        path: The way to ``value``.
        keep: Ways to what is left as it stands.
    """
    if path in keep:
        return value
    if isinstance(value, str):
        if "${" not in value:
            return value
        return _VARIABLE.sub(lambda found: _variable(found, report, path), value)
    if isinstance(value, Mapping):
        return {key: expanded(item, report, (*path, str(key)), keep) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [expanded(item, report, (*path, place), keep) for place, item in enumerate(value)]
    return value


def escaped(text: str) -> str:
    r"""Returns ``text`` so that `expanded` gives it back: ``\${`` for every variable in it."""
    return _VARIABLE.sub(r"\1\\${\2}", str(text))


def _variable(found: re.Match[str], report: Report, path: Path) -> str:
    if found[1]:
        return found[0][1:]
    value = os.environ.get(found[2])
    if value is None:
        near = did_you_mean(found[2], os.environ)
        message = f"${{{found[2]}}}: the environment has no such variable{near}"
        report(path, f"{message}; set it, or write \\${{{found[2]}}} for the text")
        return found[0]
    return value
