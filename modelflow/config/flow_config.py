"""The values of a graph file before any name in it is looked up.

`FlowConfig` and its parts are the same for every format: TOML with embedded DOT, native TOML,
YAML, JSON, plain DOT, and graphs built in code.

A position is that of the middle of a node in points (1/72 inch), x to the right; in a file y goes
upwards, as in Graphviz, and in a `Position` downwards, as on a page.
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
    """What a graph file says of one input or output, for those who call the graph from outside."""

    datatype: str | None = None
    """The element type, as the Open Inference Protocol calls it (``FP32``); None: not said."""
    shape: tuple[int | None, ...] | None = None
    """The shape of one buffer, None for an axis that is free; None as a whole: not said."""
    batched: bool = True
    """A request's array is cut along axis 0, a buffer a row; else it is one buffer as a whole."""
    labels: tuple[str, ...] = ()
    """The names of the classes, for outputs whose last axis is one of scores."""
    location: Location = field(default_factory=lambda: Location("<code>"), compare=False)
    """Where it stands."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The section ``[serve]``."""

    input: Mapping[str, ServePort] = field(default_factory=dict)
    """By the name of the graph's input."""
    output: Mapping[str, ServePort] = field(default_factory=dict)
    """By the name of the graph's output."""
    is_isolated: bool = False
    """``modelflow serve`` gives it a process of its own."""


NOWHERE = Location("<code>")


@dataclass(frozen=True, slots=True)
class PortRef:
    """One end of an edge; ``port`` is None where it was left out."""

    node: str
    port: str | None = None

    def __str__(self) -> str:
        return self.node if self.port is None else f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node: its name and its attributes as written (text from DOT; typed from TOML, code).

    The attributes of the graph file (``type``, ``flowunit``, ``device``, ``batch_size``, ...) and
    the options of the unit stand in one mapping, with the defaults of ``node [...]`` merged in.
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
    """A parameter of the graph: ``"$NAME"`` in a node attribute stands for its value."""

    name: str
    default: Any = None
    desc: str = ""
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """A whole graph file.

    Attributes:
        nodes, edges: The graph, in file order.
        driver, profile, log, flow: The sections of the same name, every key present with its
            default or the value given, converted to its type (see `modelflow.config.schema`).
        is_named: The file says ``[flow] name``; else its name is that of the ``digraph``.
        graph: The graph-wide defaults and switches (``queue_size``, ``batch_size``, ``strict``...).
        args: The parameters, by name.
        serve: What is said of the graph's inputs and outputs to those outside.
        placements: The kinds of machine that nodes may be placed on, by name.
        path: The file it was read from; None for text, mappings and graphs built in code. Relative
            paths in it are relative to the file's folder.
        archive: The archive that the file was unpacked from; None: it was in none.
        modules: Folders of it in which modules are found that units are named by.
        notes: Sentences for the user about keys that are accepted and have no effect.
        variables: Text with variables of the environment put in -> the text as written; so that no
            message shows what may be a password.
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
        """Where what is written goes: to where the file is; of an archive, where one is now."""
        return Path() if self.path is None or self.archive is not None else self.path.parent


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


def format_port(end: PortRef) -> str:
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


Position = tuple[float, float]
"""x to the right and y downwards, in points."""

_POINT = re.compile(r"\s*([-+.\deE]+)\s*,\s*([-+.\deE]+)\s*!?\s*\Z")
# A picture that is larger shows nothing.
_FARTHEST = 1e6


def read_position(value: Any) -> Position | None:
    """Returns the position that ``pos`` gives; None: it gives none, and is nothing but drawn with.

    Args:
        value: What the file says: ``"x,y"`` or ``"x,y!"``, or a list of two numbers.
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
    """Returns a position as ``pos`` has it, in whole points; `read_position` is its inverse."""
    x, y = position
    return f"{round(x)},{round(-y)}!"
