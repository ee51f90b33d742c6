"""Converts the values of a graph file to a `FlowConfig`, and collects all mistakes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.config.document import Document, KeyReader, check_values, read_text
from modelflow.config.dot.read import DotGraph, read_dot
from modelflow.config.flow_config import (
    ArgConfig,
    EdgeConfig,
    FlowConfig,
    NodeConfig,
    PortRef,
    ServeConfig,
    ServePort,
    read_port,
)
from modelflow.config.placement import read_placements
from modelflow.config.schema import (
    ARG_KEYS,
    DRAWING_ATTRIBUTES,
    GRAPH_ATTRIBUTES,
    SECTIONS,
    SERVE_KEYS,
    SERVE_OPTIONS,
    WITHOUT_EFFECT,
)
from modelflow.config.variables import expand_variables, mask
from modelflow.errors import ConfigError, Finding, Location, did_you_mean
from modelflow.quantities import bytes_of
from modelflow.unit.option import Option


def read_serve(given: Any, folder: Path, reader: KeyReader) -> ServeConfig:
    """Returns the section ``[serve]``.

    Args:
        given: The values of the section.
        folder: The folder for relative paths.
        reader: Collects the mistakes.
    """
    keys = reader.read(("serve",), given, SERVE_OPTIONS)
    sides = {
        side: {
            name: _port(("serve", side, name), table, folder, reader)
            for name, table in reader.table(("serve", side), keys[side]).items()
        }
        for side in SERVE_KEYS
    }
    cache = bytes_of(keys["cache"])
    if cache is None:
        message = f"[serve]: key 'cache': got {keys['cache']!r}; expected a size such as 64MiB"
        reader.wrong(("serve", "cache"), message)
    return ServeConfig(
        **sides,
        is_isolated=keys["isolate"],
        parameters=tuple(keys["parameters"]),
        cache=int(cache or 0),
    )


def _port(path: tuple[str, str, str], given: Any, folder: Path, reader: KeyReader) -> ServePort:
    keys = reader.read(path, given, SERVE_KEYS[path[1]])
    shape: list[int] | None = keys["shape"]
    if shape is not None and 0 in shape:
        message = f"[{'.'.join(path)}]: key 'shape': got {shape}; expected lengths from 1, or -1"
        reader.wrong((*path, "shape"), message)
    form = keys.get("format")
    if form is not None and shape is not None and len(shape) != len("HWC"):
        message = f"[{'.'.join(path)}]: key 'format': got {form} with shape {shape}; "
        reader.wrong((*path, "format"), f"{message}expected three lengths, for an image")
    return ServePort(
        keys["datatype"],
        None if shape is None else tuple(None if extent == -1 else extent for extent in shape),
        keys["batched"],
        _labels(path, keys.get("labels", ()), folder, reader),
        form,
        reader.at(*path),
    )


def _labels(
    path: tuple[str, str, str], given: str | Sequence[str], folder: Path, reader: KeyReader
) -> tuple[str, ...]:
    """Returns the labels from a list or from a file."""
    if not isinstance(given, str):
        return tuple(given)
    try:
        return tuple(line.strip() for line in read_text(folder / given).rstrip().splitlines())
    except ConfigError as error:
        reader.wrong((*path, "labels"), f"[{'.'.join(path)}]: labels: {error}")
        return ()


_LISTS = ("node", "edge")
_TOP = (*SECTIONS, "args", "serve", "placement", *_LISTS)
# Variables inside are replaced after the text is parsed, because a comment may contain anything.
_DOT_TEXT = frozenset({("graph", "graphconf")})
_NODE_KEYS = ("name", "config")
_EDGE_KEYS = ("from", "to")


def config_of(document: Document, path: Path | None, dot: DotGraph | None = None) -> FlowConfig:
    """Returns the configuration of a document, or of a DOT graph without a document.

    Raises:
        ConfigError: The document has mistakes; the error lists all.
    """
    check_values(document)
    return _Reader(document, path).config(dot)


class _Reader(KeyReader):
    def __init__(self, document: Document, path: Path | None) -> None:
        super().__init__(document)
        self._path = path
        self._notes: list[str] = []
        self._unset: set[str] = set()
        self._variables: dict[str, str] = {}
        self._values = expand_variables(
            document.values,
            lambda way, message: self._note_unset(self.at(*way), message),
            self._variables,
            keep=_DOT_TEXT,
        )

    def config(self, dot: DotGraph | None) -> FlowConfig:
        for key in self._values:
            if key not in _TOP:
                near = did_you_mean(key, _TOP)
                known = ", ".join(_TOP)
                self.wrong((key,), f"unknown section {key!r}{near} (sections: {known})")
        sections = {name: self._section(name, options) for name, options in SECTIONS.items()}
        is_named = bool(sections["flow"].get("name"))
        nodes, edges = self._native_nodes(), self._native_edges()
        dot = dot or self._read_embedded(sections["graph"])
        graph = dict(sections["graph"])
        if dot is not None:
            if nodes or edges:
                self.wrong(("graph",), "got a DOT graph beside [[node]] or [[edge]]; give one")
            self._notes += dot.notes
            nodes, edges = [*dot.nodes], [*dot.edges]
            if dot.has_variables:
                nodes, edges = [*map(self._expand_node, nodes)], [*map(self._expand_edge, edges)]
            self._graph_attributes(dot, graph)
            if not is_named:
                sections["flow"] = {**sections["flow"], "name": self._expand_top(dot.name)}
        config = FlowConfig(
            nodes=tuple(nodes),
            edges=tuple(edges),
            driver=sections["driver"],
            profile=sections["profile"],
            log=sections["log"],
            flow=sections["flow"],
            is_named=is_named,
            graph=graph,
            args=self._args(),
            serve=read_serve(self._values.get("serve", {}), self._folder, self),
            placements=read_placements(self._values.get("placement", {}), self),
            path=self._path,
            notes=tuple(mask(note, self._variables) for note in self._notes),
            variables=self._variables,
        )
        if self.findings:
            findings = [f.hiding(lambda text: mask(text, self._variables)) for f in self.findings]
            raise ConfigError(sorted(findings, key=lambda f: f.location.line or 0))
        return config

    # -- sections -------------------------------------------------------------------------------

    def _section(self, name: str, options: Sequence[Option]) -> dict[str, Any]:
        given = self._values.get(name, {})
        known = {alias: o.name for o in options for alias in (o.name, *o.aliases)}
        for key, value in given.items() if isinstance(given, Mapping) else ():
            reason = WITHOUT_EFFECT.get(known.get(key, ""))
            if reason is not None and str(value).lower() not in ("false", "0"):
                self._notes.append(f"[{name}]: {key} has no effect: {reason}")
        return self.read((name,), given, options)

    def _args(self) -> dict[str, ArgConfig]:
        found = {}
        for name, table in self.table(("args",), self._values.get("args", {})).items():
            body = table if isinstance(table, Mapping) else {"default": table}
            keys = self.read(("args", name), body, ARG_KEYS)
            found[name] = ArgConfig(name, keys["default"], keys["desc"], self.at("args", name))
        return found

    # -- the graph ------------------------------------------------------------------------------

    def _read_embedded(self, section: Mapping[str, Any]) -> DotGraph | None:
        text, file = section["graphconf"], section["graphconffilepath"]
        if text and file:
            self.wrong(("graph", "graphconf"), "got graphconf and graphconffilepath; give one")
        try:
            if text:
                joined = "\n".join(text) if isinstance(text, list) else text
                first_line = self._document.first_line(("graph", "graphconf"))
                return read_dot(joined, self._document.file, first_line)
            if file:
                path = self._folder / file
                return read_dot(self._text_of(path), str(path))
        except ConfigError as error:
            self.findings += error.findings
        else:
            if section["format"] == "graphviz" and "node" not in self._values:
                self.wrong(("graph",), "[graph]: format is graphviz, but there is no graphconf")
        return None

    @property
    def _folder(self) -> Path:
        """The folder for relative paths of the file."""
        return self._path.parent if self._path else Path()

    def _text_of(self, path: Path) -> str:
        try:
            return read_text(path)
        except ConfigError as error:
            path_key = ("graph", "graphconffilepath")
            raise self._document.mistake(path_key, f"graphconffilepath: {error}") from error

    def _graph_attributes(self, dot: DotGraph, graph: dict[str, Any]) -> None:
        options = {option.name: option for option in SECTIONS["graph"]}
        for key, value in dot.attributes.items():
            if key in GRAPH_ATTRIBUTES:
                try:
                    expanded_value = self._expand_top(value)
                    graph[key] = options[key].convert(expanded_value, f"graph attribute {key!r}")
                except ConfigError as error:
                    self.wrong(("graph", "graphconf"), str(error))
            elif key not in DRAWING_ATTRIBUTES:
                self._notes.append(f"graph attribute {key!r} has no effect")

    def _native_nodes(self) -> list[NodeConfig]:
        nodes = []
        for place, table in enumerate(self._tables("node")):
            at = ("node", place)
            name = table.get("name")
            if not isinstance(name, str) or not name:
                self.wrong(at, f"[[node]]: got the name {name!r}; expected a text")
                continue
            options = table.get("config", {})
            if not isinstance(options, Mapping):
                self.wrong(
                    (*at, "config"), f"node {name!r}: config: got {options!r}; expected keys"
                )
                options = {}
            own = {key: value for key, value in table.items() if key not in _NODE_KEYS}
            for key in sorted(set(own) & set(options)):
                self.wrong((*at, "config"), f"node {name!r}: {key!r} is given twice; give one")
            nodes.append(NodeConfig(name, {**own, **options}, self.at(*at)))
        return nodes

    def _native_edges(self) -> list[EdgeConfig]:
        edges = []
        for place, table in enumerate(self._tables("edge")):
            at = ("edge", place)
            for key in table:
                if key not in _EDGE_KEYS:
                    near = did_you_mean(key, _EDGE_KEYS)
                    self.wrong((*at, key), f"[[edge]]: unknown key {key!r}{near} (keys: from, to)")
            ends = [table.get(key) for key in _EDGE_KEYS]
            for key, end in zip(_EDGE_KEYS, ends, strict=True):
                if not isinstance(end, str) or not end.strip():
                    self.wrong(at, f"[[edge]]: {key}: got {end!r}; expected 'node' or 'node:port'")
            source, target = ends
            if isinstance(source, str) and isinstance(target, str):
                edges.append(EdgeConfig(read_port(source), read_port(target), self.at(*at)))
        return edges

    def _tables(self, name: str) -> list[Mapping[str, Any]]:
        given = self._values.get(name, [])
        if not isinstance(given, list) or not all(isinstance(table, Mapping) for table in given):
            self.wrong((name,), f"{name}: got {given!r:.60}; expected a list of tables: [[{name}]]")
            return []
        return given

    # -- variables in DOT -----------------------------------------------------------------------

    def _expand_at(self, value: Any, at: Location, node: str | None = None) -> Any:
        def report(path: tuple[str | int, ...], message: str) -> None:
            self._note_unset(at, message, node, f"{path[-1]}: " if path else "")

        return expand_variables(value, report, self._variables)

    def _expand_top(self, value: str) -> Any:
        return self._expand_at(value, self.at("graph", "graphconf"))

    def _expand_node(self, node: NodeConfig) -> NodeConfig:
        name = self._expand_at(node.name, node.location)
        attributes = self._expand_at(node.attributes, node.location, name)
        return NodeConfig(name, attributes, node.location)

    def _expand_edge(self, edge: EdgeConfig) -> EdgeConfig:
        source, target = (
            PortRef(*(self._expand_at(part, edge.location) for part in (end.node, end.port)))
            for end in (edge.source, edge.target)
        )
        return EdgeConfig(source, target, edge.location)

    def _note_unset(
        self, at: Location, message: str, node: str | None = None, where: str = ""
    ) -> None:
        """Adds a mistake for a variable that is not set, once for each name."""
        if message not in self._unset:
            self._unset.add(message)
            self.findings.append(Finding(at, f"{where}{message}", node, ConfigError))
