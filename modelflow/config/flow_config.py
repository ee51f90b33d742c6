"""What a graph file says, before any name in it is looked up.

`FlowConfig` and its parts are the same for every format: TOML with embedded DOT, native TOML,
YAML, JSON, plain DOT, and graphs built in code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.config.serve_port import ServeConfig
from modelflow.errors import Location

__all__ = ["ArgConfig", "EdgeConfig", "FlowConfig", "NodeConfig", "PortRef"]

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
