"""One end of an edge as native files write it: ``node`` or ``node:port``, quoted where needed."""

import re

from modelflow.config.flow_config import PortRef

__all__ = ["read_port", "written_port"]

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_END = re.compile(
    rf"\s*(?:{_QUOTED}|([^:]*?))\s*(?::\s*(?:{_QUOTED}|(.*?)))?\s*\Z",
    re.DOTALL,
)


def read_port(text: str) -> PortRef:
    """Returns the end that a text names."""
    found = _END.match(text)
    if found is None:  # text behind a closing quote: the quotes are part of the name
        node, _, port = text.partition(":")
        return PortRef(node.strip(), port.strip() or None)
    node, port = (
        plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        for quoted, plain in ((found[1], found[2]), (found[3], found[4]))
    )
    return PortRef(node or "", port or None)


def written_port(end: PortRef) -> str:
    """Returns an end as text, each part quoted where it could be read as something else."""
    node, port = end.node, end.port
    if node != node.strip() or not node or ":" in node or node.startswith('"'):
        node = _in_quotes(node)
    if port is None:
        return node
    if port != port.strip() or port.startswith('"'):
        port = _in_quotes(port)
    return f"{node}:{port}"


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
