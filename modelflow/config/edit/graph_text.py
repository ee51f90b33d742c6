"""Edits of the text of a graph file: each changes what it is about, and keeps every other byte.

Comments, blanks, order, quotes and line ends stay as they are. Pure: text in, text out.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

from modelflow.config.dot.tokens import dot_text
from modelflow.config.edit.dot import DotEdits
from modelflow.config.edit.forms import open_text
from modelflow.config.edit.native import NativeEdits
from modelflow.config.edit.splice import Splice, apply_splices
from modelflow.config.edit.toml_spans import TomlString
from modelflow.config.edit.toml_tables import TomlTables
from modelflow.config.flow_config import (
    FlowConfig,
    NodeConfig,
    PortRef,
    Position,
    format_position,
    read_port,
)
from modelflow.config.override import CallerText, apply_overrides
from modelflow.config.schema import GRAPH_ATTRIBUTES, SECTIONS
from modelflow.config.variables import escape
from modelflow.errors import ConfigError, Finding, Location, did_you_mean

# Keys of [graph] that say where the graph stands.
_PLACES = ("format", "graphconf", "graphconffilepath")


def diff(before: str, after: str, name: str) -> str:
    """Returns what differs between two texts of a file as a unified diff; "" where nothing does.

    Args:
        before: The text as it was.
        after: The text as it is now.
        name: The file's name.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    unended = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + unended for line in lines)


@dataclass(frozen=True)
class GraphText:
    """The text of a graph file, and what can be done with it; every edit gives another one.

    Names and values are those of the file: ``${NAME}`` in them is the environment's, and ``$NAME``
    an argument's. Ends of edges are ``node:port``, ``node`` or a `PortRef`.

    Attributes:
        text: The text.
        form: ``dot``, or ``toml`` with the graph as DOT text or as tables.
        file: The file's name, for messages.
    """

    text: str
    form: str
    file: str = "<text>"
    _edits: DotEdits | NativeEdits = field(init=False, repr=False, compare=False)
    _tables: TomlTables = field(init=False, repr=False, compare=False)
    _string: TomlString | None = field(init=False, repr=False, compare=False)

    @classmethod
    def read(cls, text: str, form: str, file: str = "<text>") -> Self:
        """Reads a text.

        Args:
            text: What the file holds, with its line ends as they are.
            form: ``toml``, ``dot``, ``yaml`` or ``json``.
            file: The file's name, for messages.

        Raises:
            ConfigError: it does not parse, its graph stands elsewhere, or the form is one that is
                not edited; the message says what to do.
        """
        return cls(text, form, file)

    def __post_init__(self) -> None:
        """Reads the text; raises as `read` does."""
        opened = open_text(self.text, self.form, self.file)
        for name, value in zip(("_edits", "_tables", "_string"), opened, strict=True):
            object.__setattr__(self, name, value)

    # -- what it says ---------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """The attributes of each node as written, with the defaults of ``node [...]``."""
        return self._edits.nodes

    @property
    def edges(self) -> tuple[tuple[PortRef, PortRef], ...]:
        """The edges, in order."""
        return self._edits.edges

    @property
    def name(self) -> str:
        """The graph's name as DOT gives it; "" where it gives none."""
        return self._edits.name if isinstance(self._edits, DotEdits) else ""

    @property
    def is_typed(self) -> bool:
        """Tells whether values have types (tables of TOML), or are text (DOT)."""
        return not isinstance(self._edits, DotEdits)

    # -- values ---------------------------------------------------------------------------------

    def set(self, node: str, attribute: str, value: Any) -> Self:
        """Gives a node an attribute: in place of the value in effect, else behind its others.

        Raises:
            ConfigError: there is no such node, or the value cannot be written here.
        """
        return self._with(self._edits.set_attribute(self._node(node), attribute, value))

    def unset(self, node: str, attribute: str) -> Self:
        """Takes away what a node says of an attribute; where the file gives a default, it holds.

        Raises:
            ConfigError: there is no such node, or it does not itself say anything of it.
        """
        given = self.nodes[self._node(node)]
        if attribute not in given:
            near, names = did_you_mean(attribute, given), ", ".join(given) or "none"
            self._fail(f"there is no attribute {attribute!r}{near} (attributes: {names})", node)
        return self._with(self._edits.unset_attribute(node, attribute))

    def set_graph(self, key: str, value: Any) -> Self:
        """Sets a key of the graph or of a section: ``queue_size``, ``flow.max_in_flight``.

        Raises:
            ConfigError: there is no such key, the form has no place for it, or the value cannot be
                written.
        """
        section, name = self._section_and_key(key)
        edits, tables = self._edits, self._tables
        in_dot = edits if isinstance(edits, DotEdits) and section == "graph" else None
        if in_dot is not None and (self.form == "dot" or name in in_dot.attributes):
            return self._with(in_dot.set_graph(name, value))
        if tables.value((section, name)) is None:
            return self._splice(tables.with_key((section,), name, value))
        return self._splice(tables.replace_value((section, name), value))

    def override(self, overrides: Mapping[str, Any]) -> Self:
        """Writes what ``--set`` would say beside the file, with the same meaning.

        Args:
            overrides: As for `modelflow.config.override.apply_overrides`; ``${NAME}`` in a value
                is text, not a variable. A relative path is written as it is: in the file it is
                relative to the file's folder, beside it to the working folder.

        Raises:
            ConfigError: an unknown node, or a value that cannot be written here.
        """
        written = (NodeConfig(name, given) for name, given in self.nodes.items())
        wanted = apply_overrides(FlowConfig(tuple(written), ()), overrides, self.file)
        edited = self
        for node in wanted.nodes:
            before = self.nodes[node.name]
            for key, value in node.attributes.items():
                if isinstance(value, CallerText):
                    edited = edited.set(node.name, key, escape(value))
                elif key not in before or value is not before[key]:
                    edited = edited.set(node.name, key, value)
            if "deviceid" in before and "deviceid" not in node.attributes:
                edited = edited._without_number(node.name)
        return edited

    def move(self, node: str, position: Position | None) -> Self:
        """Says where a node stands in the picture.

        Args:
            node: The node.
            position: The middle of its box; None: where the layout puts it.

        Raises:
            ConfigError: there is no such node.
        """
        if position is not None:
            return self.set(node, "pos", format_position(position))
        is_there = "pos" in self.nodes[self._node(node)]
        return self.unset(node, "pos") if is_there else self

    def move_all(self, places: Mapping[str, Position | None]) -> Self:
        """Says of several nodes where they stand, as `move` does of one.

        Raises:
            ConfigError: there is no such node.
        """
        edits = self._edits
        if isinstance(edits, DotEdits):
            values = {
                self._node(node): None if place is None else dot_text(format_position(place))
                for node, place in places.items()
            }
            splices = edits.set_everywhere("pos", values)
            if splices is not None:
                return self._with(splices)
        edited = self
        for node, place in places.items():
            edited = edited.move(node, place)
        return edited

    # -- nodes and edges ------------------------------------------------------------------------

    def add_node(self, name: str, attributes: Mapping[str, Any] | None = None) -> Self:
        """Adds a node behind the last one; in DOT, defaults of ``node [...]`` apply to it.

        Raises:
            ConfigError: there is a node of that name, or a value that cannot be written.
        """
        self._check_is_free(name)
        return self._with(self._edits.add_node(name, attributes or {}))

    def remove_node(self, name: str) -> Self:
        """Takes a node away, with its edges.

        Raises:
            ConfigError: there is no such node, or the text cannot be parted so.
        """
        return self._with(self._edits.remove_node(self._node(name)))

    def rename(self, old: str, new: str) -> Self:
        """Gives a node another name, in its edges too, and in ``[serve]``.

        A node without ``flowunit`` runs the unit of its name: where that is to stay, set
        ``flowunit`` first.

        Raises:
            ConfigError: there is no such node, there is one of the new name, or the name cannot be
                written.
        """
        if self._node(old) == new:
            return self
        self._check_is_free(new)
        edited = self._with(self._edits.rename(old, new))
        for side in ("input", "output"):
            served, tables = ("serve", side, old), edited._tables
            if tables.value(served) is not None:
                edited = edited._splice(tables.rename(served, new))
        return edited

    def connect(self, source: str | PortRef, target: str | PortRef) -> Self:
        """Adds an edge behind the last one.

        Raises:
            ConfigError: there is no such node, there is such an edge, or defaults of ``edge [...]``
                give it other ports.
        """
        ends = _end(source), _end(target)
        for end in ends:
            self._node(end.node)
        if ends in self.edges:
            self._fail(f"there is the edge {ends[0]} -> {ends[1]} already")
        return self._with(self._edits.connect(*ends))

    def disconnect(self, source: str | PortRef, target: str | PortRef) -> Self:
        """Takes an edge away; a chain is parted where it stands in one.

        Raises:
            ConfigError: there is no such edge, or the text cannot be parted so.
        """
        ends = _end(source), _end(target)
        if ends not in self.edges:
            edge, edges = f"{ends[0]} -> {ends[1]}", [f"{a} -> {b}" for a, b in self.edges]
            self._fail(f"there is no edge {edge!r}{did_you_mean(edge, edges)}")
        edited = self
        while ends in edited.edges:
            edited = edited._with(edited._edits.disconnect(*ends))
        return edited

    # -- texts ----------------------------------------------------------------------------------

    def _with(self, splices: Iterable[Splice]) -> Self:
        """Returns the text with splices of what the edits read: the file, or the DOT text in it."""
        string = self._string
        return self._splice(splices if string is None else map(string.splice, splices))

    def _splice(self, splices: Iterable[Splice]) -> Self:
        return replace(self, text=apply_splices(self.text, splices))

    def _without_number(self, node: str) -> Self:
        """Returns the text in which a node has the first device of its kind."""
        try:
            edited = self.unset(node, "deviceid")
        except ConfigError:  # a default gives it
            edited = self
        return edited.set(node, "deviceid", 0) if "deviceid" in edited.nodes[node] else edited

    # -- what is there --------------------------------------------------------------------------

    def _node(self, name: str) -> str:
        if name not in self.nodes:
            near, known = did_you_mean(name, self.nodes), ", ".join(self.nodes)
            self._fail(f"there is no node {name!r}{near} (nodes: {known})")
        return name

    def _check_is_free(self, name: str) -> None:
        if not name:
            self._fail("got a node without a name; give one")
        if name in self.nodes:
            self._fail(f"there is a node {name!r} already; give another name")

    def _section_and_key(self, key: str) -> tuple[str, str]:
        """Returns the section that a key is of, and how the file calls it there."""
        section, _, name = key.rpartition(".")
        section = section or "graph"
        names = [(one.name, *one.aliases) for one in SECTIONS.get(section, ())]
        called = next((one for one in names if name in one), ())
        if not called or (section == "graph" and name in _PLACES):
            keys = [f"{part}.{one.name}" for part, options in SECTIONS.items() for one in options]
            self._fail(f"there is no key {key!r}{did_you_mean(f'{section}.{name}', keys)}")
        if self.form == "dot" and (section != "graph" or name not in GRAPH_ATTRIBUTES):
            self._fail(
                f"{key}: a DOT file has no place for it; write the graph as TOML: modelflow "
                "convert FILE -o NEW.toml --format graphviz"
            )
        tables = self._tables
        there = (one for one in called if tables.value((section, one)) is not None)
        return section, next(there, name)

    def _fail(self, message: str, node: str | None = None) -> NoReturn:
        raise ConfigError([Finding(Location(self.file), message, node, ConfigError)])


def _end(end: str | PortRef) -> PortRef:
    return read_port(end) if isinstance(end, str) else end
