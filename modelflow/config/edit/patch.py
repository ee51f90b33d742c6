"""The change of a graph file that the tuner and the doctor propose, as a patch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelflow.config.edit.graph_text import GraphText, diff
from modelflow.config.read import form_of


def patch_of(path: Path, before: str, changes: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the changed text of a graph file, and the difference as a patch.

    Args:
        path: The graph file.
        before: Its text.
        changes: ``{"node.key": value}``, as for ``--set``.

    Raises:
        ConfigError: A value cannot be written into the file.
    """
    if not changes:
        return before, ""
    after = GraphText.read(before, form_of(path), str(path)).override(changes).text
    return after, diff(before, after, str(path))
