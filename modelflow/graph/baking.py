"""What ``--set`` and ``--arg`` say, as an archive keeps it: paths as seen from the graph."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from modelflow.config.override import flattened
from modelflow.config.read import read_config
from modelflow.graph.graph import Graph
from modelflow.graph.node import Node
from modelflow.graph.parts import path_option

__all__ = ["baked"]


def baked(
    graph: Graph, overrides: Mapping[str, Any], args: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns what was set in a graph and given to it, so that it holds wherever it is run.

    A path of a file or folder that is there is packed, and named as seen from the graph; any other
    value stays as it is.

    Args:
        graph: The graph with all of that in it, of a file.
        overrides: ``{"node.key": value}``, each value seen from the working folder.
        args: Values for ``[args]``, likewise.
    """
    path = graph.config.path
    assert path is not None  # what has no file has been refused
    changes = flattened(overrides, list(graph.nodes))
    settings = {
        f"{node}.{key}": _seen(value, _nodes(node, graph), key, path.parent)
        for node, key, value in changes
    }
    written = read_config(path).nodes
    given = {}
    for name, value in args.items():
        places = [
            (graph.nodes[config.name], key)
            for config in written
            for key, text in config.attributes.items()
            if text == f"${name}"
        ]
        found = (_seen(value, [node], key, path.parent) for node, key in places)
        given[name] = next((text for text in found if text != str(value)), str(value))
    return settings, given


def _nodes(name: str, graph: Graph) -> Iterator[Node]:
    yield from graph.nodes.values() if name == "*" else (graph.nodes[name],)


def _seen(value: Any, nodes: "Iterator[Node] | list[Node]", key: str, folder: Path) -> str:
    text = str(value)
    options = (path_option(node, key) for node in nodes if node.spec and not node.spec.is_sink)
    if any(options) and "://" not in text and os.path.exists(text):
        return Path(os.path.relpath(text, folder)).as_posix()
    return text
