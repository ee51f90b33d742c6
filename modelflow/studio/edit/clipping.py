"""Nodes as DOT text, to be pasted into this graph, another one, or an editor of texts. Pure."""

import itertools
import re
from collections.abc import Collection, Iterable

from modelflow.config.dot_words import dot_text, dot_word
from modelflow.config.edit import GraphText
from modelflow.config.flow_config import PortRef
from modelflow.config.read_dot import read_dot
from modelflow.registry.registry import Registry
from modelflow.studio.edit.value import typed

__all__ = ["copy", "paste"]

_WHOLE = re.compile(r"\s*(strict\s+)?(di)?graph\b[^{;=\[]*\{", re.IGNORECASE)


def copy(text: GraphText, names: Collection[str]) -> str:
    """Returns nodes and the edges among them as DOT; where they stood is left out.

    Raises:
        ConfigError: DOT cannot hold a name or a value.
    """
    lines = []
    for name in (name for name in text.nodes if name in names):
        given = {key: value for key, value in text.nodes[name].items() if key != "pos"}
        words = [f"{dot_word(key)}={dot_word(dot_text(value))}" for key, value in given.items()]
        lines.append(f"    {dot_word(name)}" + (f"[{', '.join(words)}]" if words else ""))
    for source, target in text.edges:
        if source.node in names and target.node in names:
            lines.append(f"    {_end(source)} -> {_end(target)}")
    return "\n".join(["digraph {", *lines, "}", ""])


def _end(end: PortRef) -> str:
    return dot_word(end.node) + ("" if end.port is None else f":{dot_word(end.port)}")


def paste(text: GraphText, clipping: str, registry: Registry) -> GraphText:
    """Returns a text with what `copy` gave of another, or statements of DOT, put in.

    Nodes whose names are taken get others.

    Raises:
        ConfigError: it is not DOT, or cannot be put in.
    """
    is_whole = _WHOLE.match(clipping) is not None
    graph = read_dot(clipping if is_whole else f"digraph {{{clipping}\n}}", "<clipboard>")
    names: dict[str, str] = {}
    for node in graph.nodes:
        names[node.name] = new = _free(node.name, [*text.nodes, *names.values()])
        given = {key: value for key, value in node.attributes.items() if key != "pos"}
        if given.get("type", "flowunit") == "flowunit" and new != node.name:
            given.setdefault("flowunit", node.name)
        unit = given.get("flowunit", node.name)
        values = {key: typed(text, unit, key, value, registry) for key, value in given.items()}
        text = text.add_node(new, values)
    for edge in graph.edges:
        ends = (PortRef(names[end.node], end.port) for end in (edge.source, edge.target))
        text = text.connect(*ends)
    return text


def _free(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in used)
