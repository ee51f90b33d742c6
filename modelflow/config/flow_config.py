"""The values of a graph file, before names are resolved.

`FlowConfig` and its parts are the same for every format: TOML with embedded DOT, native TOML, YAML,
JSON, plain DOT, and graphs built in code.

A position is the middle of a node in points (1/72 inch), with x to the right. In a file y points
up, as in Graphviz. In a `Position` y points down, as on a page.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.errors import Location


@dataclass(frozen=True, slots=True)
class ServePort:
    """The properties of one input or output of a graph file, for callers from outside."""

    datatype: str | None = None
    """The element type of the Open Inference Protocol (``FP32``), or None if not given."""
    shape: tuple[int | None, ...] | None = None
    """The shape of one buffer, with None for a free axis; None if no shape is given."""
    batched: bool = True
    """Whether a request's array is split along axis 0, one row for each buffer."""
    labels: tuple[str, ...] = ()
    """The class names, for outputs whose last axis has scores."""
    format: str | None = None
    """The order of the axes of an image, ``NCHW`` or ``NHWC``, or None if not given."""
    location: Location = field(default_factory=lambda: Location("<code>"), compare=False)
    """The location in the graph file."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The section ``[serve]``."""

    input: Mapping[str, ServePort] = field(default_factory=dict)
    """Input name of the graph -> its properties."""
    output: Mapping[str, ServePort] = field(default_factory=dict)
    """Output name of the graph -> its properties."""
    is_isolated: bool = False
    """Whether ``modelflow serve`` runs the graph in a process of its own."""
    parameters: tuple[str, ...] = ()
    """The parameters of requests that the units read from the session's context."""
    cache: int = 0
    """The size of the response cache in bytes; 0 for no cache."""


NOWHERE = Location("<code>")


@dataclass(frozen=True, slots=True)
class PortRef:
    """One end of an edge; ``port`` is None if the port is not given."""

    node: str
    port: str | None = None

    def __str__(self) -> str:
        return self.node if self.port is None else f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node: its name and its attributes as written (text from DOT, typed from TOML and code).

    One mapping has the attributes of the graph file (``type``, ``flowunit``, ``device``,
    ``batch_size``, ...) and the options of the unit. The defaults of ``node [...]`` are merged in.
    """

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class EdgeConfig:
    """One edge, from an output to an input."""

    source: PortRef
    target: PortRef
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class ArgConfig:
    """A parameter of the graph: ``"$NAME"`` in a node attribute is replaced by its value."""

    name: str
    default: Any = None
    desc: str = ""
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """A whole graph file.

    Attributes:
        nodes, edges: The graph, in the order of the file.
        driver, profile, log, flow: The sections of the same name. Every key is present, with its
        default or with the converted value (see `modelflow.config.schema`).
        is_named: Whether the file has ``[flow] name``. Otherwise the name is the name of the
            ``digraph``.
        graph: The defaults and switches for the whole graph (``queue_size``, ``batch_size``,
            ``strict``...).
        args: The parameters, by name.
        serve: The properties of the graph's inputs and outputs for callers from outside.
        placements: The kinds of machine for placed nodes, by name.
        path: The file, or None for text, mappings and graphs built in code. Relative paths in the
            file are relative to its folder.
        archive: The archive that contained the file, or None.
        modules: Folders of the archive with the modules that define units.
        notes: Notes for the user about accepted keys without effect.
        variables: Text with variables of the environment replaced -> the text as written. Messages
            show the latter, because a value may be a password.
    """

    nodes: tuple[NodeConfig, ...]
    edges: tuple[EdgeConfig, ...]
    driver: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    log: Mapping[str, Any] = field(default_factory=dict)
    flow: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = False
    graph: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[str, ArgConfig] = field(default_factory=dict)
    serve: ServeConfig = field(default_factory=ServeConfig)
    placements: Mapping[str, PlacementConfig] = field(default_factory=dict)
    path: Path | None = None
    archive: Path | None = None
    modules: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def output_folder(self) -> Path:
        """The folder for relative output paths: the file's folder, or the working folder of an
        archive.
        """
        return Path() if self.path is None or self.archive is not None else self.path.parent


_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_END = re.compile(
    rf"\s*(?:{_QUOTED}|([^:]*?))\s*(?::\s*(?:{_QUOTED}|(.*?)))?\s*\Z",
    re.DOTALL,
)


def read_port(text: str) -> PortRef:
    """Parses the end of an edge."""
    found = _END.match(text)
    if found is None:  # there is text behind a closing quote, so the quotes are part of the name
        node, _, port = text.partition(":")
        return PortRef(node.strip(), port.strip() or None)
    node, port = (
        plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        for quoted, plain in ((found[1], found[2]), (found[3], found[4]))
    )
    return PortRef(node or "", port or None)


def format_port(end: PortRef) -> str:
    """Returns an end as text, with quotes around ambiguous parts."""
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


Position = tuple[float, float]
"""The position (x, y) in points: x to the right and y downwards."""

_POINT = re.compile(r"\s*([-+.\deE]+)\s*,\s*([-+.\deE]+)\s*!?\s*\Z")
# A larger picture would show nothing.
_FARTHEST = 1e6


def read_position(value: Any) -> Position | None:
    """Returns the position of a ``pos`` attribute, or None if the value is no position.

    Args:
        value: The value in the file: ``"x,y"`` or ``"x,y!"``, or a list of two numbers.
    """
    found = _POINT.match(value) if isinstance(value, str) else None
    parts = found.groups() if found else value
    if not isinstance(parts, list | tuple) or len(parts) != 2:
        return None
    try:
        x, y = (float(part) for part in parts)
    except (TypeError, ValueError):
        return None
    if not (math.isfinite(x) and math.isfinite(y)) or max(abs(x), abs(y)) > _FARTHEST:
        return None
    return x, -y


def format_position(position: Position) -> str:
    """Returns a position as text of ``pos``, in whole points; `read_position` is the inverse."""
    x, y = position
    return f"{round(x)},{round(-y)}!"
