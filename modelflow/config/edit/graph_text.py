"""The text of a graph file with its edits; an edit returns a new text and has no side effects."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, NoReturn, Self

from modelflow.config.document import Document, mistake, read_toml
from modelflow.config.edit.dot import DotEdits, refuse
from modelflow.config.edit.meaning import Edge, Meaning
from modelflow.config.edit.toml import TomlEdits, toml_value
from modelflow.config.flow_config import (
    FlowConfig,
    NodeConfig,
    PortRef,
    Position,
    format_port,
    format_position,
    read_port,
)
from modelflow.config.override import IN_FLIGHT, CallerText, apply_overrides
from modelflow.config.variables import escape
from modelflow.errors import ConfigError, Finding, Location, did_you_mean

_GRAPHCONF = ("graph", "graphconf")


def diff(before: str, after: str, name: str) -> str:
    """Returns a unified diff of two texts of a file, or "" for equal texts.

    Args:
        before: The old text.
        after: The new text.
        name: The file's name.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    name = name.lstrip("/")
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    unended = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + unended for line in lines)


@dataclass(frozen=True)
class GraphText:
    """The text of a graph file; every edit returns another `GraphText`.

    Names and values are as written in the file: ``${NAME}`` is a variable of the environment, and
    ``$NAME`` is an argument. The ends of edges are ``node:port``, ``node`` or a `PortRef`.

    Attributes:
        text: The text.
        form: ``dot``, or ``toml`` with the graph as DOT text or as tables.
        file: The file's name, for messages.
    """

    text: str
    form: str
    file: str = "<text>"
    _edits: DotEdits | TomlEdits = field(init=False, repr=False, compare=False)
    _toml: TomlEdits = field(init=False, repr=False, compare=False)
    _meaning: Meaning = field(init=False, repr=False, compare=False)

    @classmethod
    def read(cls, text: str, form: str, file: str = "<text>") -> Self:
        """Parses a text.

        Args:
            text: The content of the file, with its line ends unchanged.
            form: ``toml``, ``dot``, ``yaml`` or ``json``.
            file: The file's name, for messages.

        Raises:
            ConfigError: The text has mistakes, its graph is in another file, or the form cannot be
                edited. The message has the next step.
        """
        return cls(text, form, file)

    def __post_init__(self) -> None:
        """Parses the text, and raises as `read` does."""
        text = self.text.replace("\r\n", "\n") if self._is_crlf else self.text
        if self.form == "dot":
            toml = TomlEdits(Document({}, {}, self.file, ""))
            edits: DotEdits | TomlEdits = DotEdits(text, self.file)
        elif self.form == "toml":
            document = read_toml(text, self.file)
            toml = edits = TomlEdits(document)
            if dot := _dot_in(document):
                edits = DotEdits(dot, self.file, document.first_line(_GRAPHCONF))
        else:
            raise mistake(self.file, None, _refuse_form(self.form))
        meaning = edits.meaning
        if edits is not toml:
            graph = {**(toml.value(("graph",)) or {}), "graphconf": ""}
            sections = {**toml.meaning.sections, "graph": graph, **meaning.sections}
            meaning = replace(meaning, sections=sections)
        for name, value in (("_edits", edits), ("_toml", toml), ("_meaning", meaning)):
            object.__setattr__(self, name, value)

    # -- contents --------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """The attributes of each node as written, including the defaults of ``node [...]``."""
        return self._meaning.given

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges, in the order of the text."""
        return self._meaning.edges

    @property
    def name(self) -> str:
        """The graph's name in DOT, or ""."""
        return self._edits.name if isinstance(self._edits, DotEdits) else ""

    @property
    def is_typed(self) -> bool:
        """Tells whether values have types (TOML tables) or are texts (DOT)."""
        return not isinstance(self._edits, DotEdits)

    # -- values ---------------------------------------------------------------------------------

    def set(self, node: str, attribute: str, value: Any) -> Self:
        """Sets an attribute of a node: replaces the value in effect, or adds the attribute.

        Raises:
            ConfigError: The node does not exist, or the value cannot be written here.
        """
        return self._give({self._node(node): {attribute: value}})

    def unset(self, node: str, attribute: str) -> Self:
        """Removes an attribute of a node; a default of the file then takes effect.

        Raises:
            ConfigError: The node does not exist, or does not set the attribute itself.
        """
        given = self.nodes[self._node(node)]
        if attribute not in given:
            near, names = did_you_mean(attribute, given), ", ".join(given) or "none"
            self._fail(f"there is no attribute {attribute!r}{near} (attributes: {names})", node)
        return self._give({node: {attribute: None}})

    def override(self, overrides: Mapping[str, Any]) -> Self:
        """Writes ``--set`` overrides into the file, with the same meaning.

        Args:
            overrides: As for `modelflow.config.override.apply_overrides`. ``${NAME}`` in a value is
                text, not a variable. A relative path is written unchanged. In the file it is
                relative to the file's folder, in ``--set`` to the working folder.

        Raises:
            ConfigError: A node is unknown, or a value cannot be written here.
        """
        if IN_FLIGHT in overrides:
            raise ConfigError(
                f"{self.file}: {IN_FLIGHT} belongs to the section [flow] of the file; write "
                f"{IN_FLIGHT} = {overrides[IN_FLIGHT]} there"
            )
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

    def move_all(self, places: Mapping[str, Position | None]) -> Self:
        """Sets positions of nodes in the picture (the middle of the box); None removes a position.

        Raises:
            ConfigError: A node does not exist.
        """
        return self._give(
            {
                self._node(node): {"pos": None if place is None else format_position(place)}
                for node, place in places.items()
                if place is not None or "pos" in self.nodes[self._node(node)]
            }
        )

    def _give(self, values: Mapping[str, Mapping[str, Any]]) -> Self:
        """Sets attributes of nodes, except attributes that already have the value."""
        expected, changes = self._meaning, {}
        for node, attributes in values.items():
            given, change = dict(self.nodes[node]), {}
            for key, value in attributes.items():
                old = given.pop(key, None)
                new = None if value is None else self._edits.value_of(value, old)
                if new is not None:
                    given[key] = new
                if new != old or type(new) is not type(old):
                    change[key] = new
            expected = expected.with_attributes(node, given)
            changes.update({node: change} if change else {})

        def is_expected(found: Meaning) -> bool:
            for node, change in changes.items():  # behind a removed attribute a default may appear
                gone = {key for key, value in change.items() if value is None}
                given = {k: v for k, v in found.given.get(node, {}).items() if k not in gone}
                found = found.with_attributes(node, given)
            return found.is_same(expected)

        what = ", ".join(f"{node}.{key}" for node, change in changes.items() for key in change)
        if not changes:
            return self
        return self._with_graph(what, self._edits.give(changes), is_expected)

    # -- nodes and edges ------------------------------------------------------------------------

    def add_node(self, name: str, attributes: Mapping[str, Any] | None = None) -> Self:
        """Adds a node behind the last node; in DOT, defaults of ``node [...]`` apply.

        Raises:
            ConfigError: The name is in use, or a value cannot be written.
        """
        self._check_is_free(name)
        values = {
            key: self._edits.value_of(value, None) for key, value in (attributes or {}).items()
        }

        def is_expected(found: Meaning) -> bool:
            given = found.given.get(name, {})
            has_all = name in found.given and values.items() <= given.items()
            return has_all and found.without_node(name).is_same(self._meaning)

        return self._with_graph(name, self._edits.add_node(name, values), is_expected)

    def remove_node(self, name: str) -> Self:
        """Removes a node, with its edges.

        Raises:
            ConfigError: The node does not exist, or the text cannot be split in this way.
        """
        expected = self._meaning.without_node(self._node(name))
        return self._with_graph(name, self._edits.remove_node(name), expected.is_same)

    def rename(self, old: str, new: str) -> Self:
        """Renames a node, also in its edges and in ``[serve]``.

        A node without ``flowunit`` runs the unit with the node's name. To keep the unit, set
        ``flowunit`` first.

        Raises:
            ConfigError: The node does not exist, the new name is in use, or the name cannot be
                written.
        """
        if self._node(old) == new:
            return self
        self._check_is_free(new)
        expected = self._meaning.rename(old, new)
        edited = self._with_graph(old, self._edits.rename(old, new), expected.is_same)
        for side in ("input", "output"):
            ports = edited._toml.value(("serve", side))
            if not isinstance(ports, Mapping) or old not in ports:
                continue
            renamed = {new if key == old else key: ports[key] for key in ports}
            expected = edited._meaning.with_key("serve", side, renamed)
            text = edited._toml.rename_table(("serve", side, old), new)
            edited = edited._with(old, text, expected.is_same)
        return edited

    def connect(self, source: str | PortRef, target: str | PortRef) -> Self:
        """Adds an edge behind the last edge.

        Raises:
            ConfigError: A node does not exist, the edge exists, or defaults of ``edge [...]`` give
                the edge other ports.
        """
        ends = _end(source), _end(target)
        for end in ends:
            self._node(end.node)
        if ends in self.edges:
            self._fail(f"there is the edge {ends[0]} -> {ends[1]} already")

        def is_expected(found: Meaning) -> bool:
            return ends in found.edges and found.without_edge(ends).is_same(self._meaning)

        what = " -> ".join(map(format_port, ends))
        return self._with_graph(what, self._edits.connect(*ends), is_expected)

    def disconnect(self, source: str | PortRef, target: str | PortRef) -> Self:
        """Removes an edge, and splits the chain that contains the edge.

        Raises:
            ConfigError: The edge does not exist, or the text cannot be split in this way.
        """
        ends = _end(source), _end(target)
        edge = f"{ends[0]} -> {ends[1]}"
        if ends not in self.edges:
            edges = [f"{a} -> {b}" for a, b in self.edges]
            self._fail(f"there is no edge {edge!r}{did_you_mean(edge, edges)}")
        expected = self._meaning.without_edge(ends)
        return self._with_graph(edge, self._edits.disconnect(*ends), expected.is_same)

    def add_folder(self, folder: str) -> Self:
        """Adds a folder of units to ``[driver] dir``, and the section if the file has none.

        Raises:
            ConfigError: The file is DOT, which names no folders, or is written in another way.
        """
        if self.form != "toml":
            self._fail(
                "a DOT file names no folders of units; write the graph as TOML first: modelflow "
                f"convert {self.file} -o {PurePath(self.file).with_suffix('.toml')}"
            )
        driver = self._toml.value(("driver",))
        dirs = driver.get("dir", []) if isinstance(driver, Mapping) else []
        folders = [dirs] if isinstance(dirs, str) else list(dirs)
        if folder in folders:
            return self
        folders.append(folder)
        expected = self._meaning.with_key("driver", "dir", folders)
        if driver is None:
            text = self.text.replace("\r\n", "\n") if self._is_crlf else self.text
            end = "" if not text else "\n" if text.endswith("\n") else "\n\n"
            text = f"{text}{end}[driver]\ndir = {toml_value(folders)}\n"
        else:
            text = self._toml.change({("driver", "dir"): folders})
        return self._with("driver.dir", text, expected.is_same)

    # -- texts ----------------------------------------------------------------------------------

    @property
    def _is_crlf(self) -> bool:
        return "\r\n" in self.text and self.text.count("\n") == self.text.count("\r\n")

    def _with_graph(self, what: str, text: str, is_expected: Callable[[Meaning], bool]) -> Self:
        """Returns the file with a new text of the edited part: the file, or the DOT text inside."""
        if self.form == "toml" and isinstance(self._edits, DotEdits):
            text = self._toml.change({_GRAPHCONF: text})
        return self._with(what, text, is_expected)

    def _with(self, what: str, text: str, is_expected: Callable[[Meaning], bool]) -> Self:
        """Returns the file with a new text, and checks that the meaning is as expected.

        Raises:
            ConfigError: The meaning is another one.
        """
        try:
            edited = replace(self, text=text.replace("\n", "\r\n") if self._is_crlf else text)
        except ConfigError as error:
            raise ConfigError(self._refuse(what)) from error
        if not is_expected(edited._meaning):
            raise ConfigError(self._refuse(what))
        return edited

    def _refuse(self, what: str) -> str:
        if not self.is_typed:
            return refuse(what)
        return (
            f"{what}: cannot be changed in the way the file is written; change it by "
            "hand, or write a new file: modelflow convert FILE -o NEW.toml"
        )

    def _without_number(self, node: str) -> Self:
        """Returns the text in which a node has the first device of its kind."""
        try:
            edited = self.unset(node, "deviceid")
        except ConfigError:  # the value comes from a default
            edited = self
        return edited.set(node, "deviceid", 0) if "deviceid" in edited.nodes[node] else edited

    # -- statements -----------------------------------------------------------------------------

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

    def _fail(self, message: str, node: str | None = None) -> NoReturn:
        raise ConfigError([Finding(Location(self.file), message, node, ConfigError)])


def _end(end: str | PortRef) -> PortRef:
    return read_port(end) if isinstance(end, str) else end


def _dot_in(document: Document) -> str:
    """Returns the DOT text of a TOML file, or "" if its graph is in tables.

    Raises:
        ConfigError: The graph is in another file, or is a list of lines.
    """
    section = document.values.get("graph")
    graph = section if isinstance(section, Mapping) else {}
    if path := graph.get("graphconffilepath"):
        raise document.mistake(
            ("graph", "graphconffilepath"),
            f"graphconffilepath: the graph is in {path!r}; edit that file",
        )
    if isinstance(graph.get("graphconf"), list):
        raise document.mistake(
            _GRAPHCONF,
            "graphconf: is a list of lines, which cannot be edited; write it as one text: "
            "modelflow convert FILE -o NEW.toml --format graphviz",
        )
    return str(graph.get("graphconf") or "")


def _refuse_form(form: str) -> str:
    if form in ("yaml", "json"):
        reason = "its comments would be lost" if form == "yaml" else "only TOML and DOT are"
        return (
            f"{form.upper()} cannot be edited: {reason}; write the graph as TOML first: modelflow "
            "convert FILE -o NEW.toml"
        )
    return f"form: got {form!r}; expected toml or dot{did_you_mean(form, ('toml', 'dot'))}"
