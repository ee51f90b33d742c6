"""Edits of a TOML graph file with ``[[node]]`` and ``[[edge]]``, each as its splices."""

from collections.abc import Mapping
from typing import Any, NoReturn

from modelflow.config.document import Document
from modelflow.config.edit.dot_meaning import Edge
from modelflow.config.edit.splice import Splice
from modelflow.config.edit.toml_tables import TomlTables
from modelflow.config.flow_config import PortRef, format_port, read_port

Splices = list[Splice]
# What these mean in a node's table is something else: attributes of that name stand in ``config``.
_TAKEN = ("name", "config")


class NativeEdits:
    """The edits of a native TOML file; each method gives the splices of one.

    What they are about is there (`modelflow.config.edit.graph_text` looks first).

    Attributes:
        nodes: The attributes of each node, as written.
        edges: The edges, in order.
    """

    def __init__(self, document: Document) -> None:
        """Takes the file as it was read.

        Raises:
            ConfigError: a node or an edge is not one.
        """
        self._tables = TomlTables(document)
        self._document = document
        self._places: dict[str, int] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        for place, table in enumerate(self._list("node")):
            name = table.get("name")
            options = table.get("config", {})
            if not isinstance(name, str) or not isinstance(options, Mapping) or name in self.nodes:
                self._fail("node", place, "expected a name of its own, and config = {...}")
            own = {key: value for key, value in table.items() if key not in _TAKEN}
            self.nodes[name] = {**own, **options}
            self._places[name] = place
        self.edges: tuple[Edge, ...] = tuple(
            self._edge(place, table) for place, table in enumerate(self._list("edge"))
        )

    def set_attribute(self, node: str, key: str, value: Any) -> Splices:
        """Gives a node an attribute, in its table or where ``config`` says it.

        Raises:
            ConfigError: TOML cannot hold the value.
        """
        if key in self.nodes[node]:
            return self._tables.replace_value(self._attribute(node, key), value)
        table = ("node", self._places[node])
        if key not in _TAKEN:
            return self._tables.with_key(table, key, value)
        if self._tables.value((*table, "config")) is None:
            return self._tables.with_key(table, "config", {key: value})
        return self._tables.with_key((*table, "config"), key, value)

    def unset_attribute(self, node: str, key: str) -> Splices:
        """Takes an attribute of a node away."""
        return self._tables.without_key(self._attribute(node, key))

    def add_node(self, name: str, attributes: Mapping[str, Any]) -> Splices:
        """Adds a node behind the last one.

        Raises:
            ConfigError: TOML cannot hold a value.
        """
        own = {key: value for key, value in attributes.items() if key not in _TAKEN}
        options = {key: value for key, value in attributes.items() if key in _TAKEN}
        table = {"name": name, **own, **({"config": options} if options else {})}
        return self._tables.with_table("node", table, "node")

    def remove_node(self, name: str) -> Splices:
        """Takes a node away, with its edges."""
        edges = [n for n, ends in enumerate(self.edges) if name in (ends[0].node, ends[1].node)]
        return [
            *self._tables.without_tables("node", [self._places[name]]),
            *self._tables.without_tables("edge", edges),
        ]

    def rename(self, old: str, new: str) -> Splices:
        """Gives a node another name, in its edges too."""
        splices = self._tables.replace_value(("node", self._places[old], "name"), new)
        for place, ends in enumerate(self.edges):
            for key, end in zip(("from", "to"), ends, strict=True):
                if end.node == old:
                    text = format_port(PortRef(new, end.port))
                    splices += self._tables.replace_value(("edge", place, key), text)
        return splices

    def connect(self, source: PortRef, target: PortRef) -> Splices:
        """Adds an edge behind the last one."""
        ends = {"from": format_port(source), "to": format_port(target)}
        return self._tables.with_table("edge", ends, "node")

    def disconnect(self, source: PortRef, target: PortRef) -> Splices:
        """Takes an edge away, the last one where it stands several times."""
        place = max(n for n, edge in enumerate(self.edges) if edge == (source, target))
        return self._tables.without_tables("edge", [place])

    def _attribute(self, node: str, key: str) -> tuple[str | int, ...]:
        table = ("node", self._places[node])
        is_option = key in (self._tables.value((*table, "config")) or {})
        return (*table, "config", key) if is_option else (*table, key)

    def _list(self, name: str) -> list[Mapping[str, Any]]:
        found = self._tables.value((name,)) or []
        if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
            self._fail(name, 0, "expected a list of tables")
        return found

    def _edge(self, place: int, table: Mapping[str, Any]) -> Edge:
        source, target = table.get("from"), table.get("to")
        if not isinstance(source, str) or not isinstance(target, str):
            self._fail("edge", place, "expected from = 'node:port' and to = 'node:port'")
        return read_port(source), read_port(target)

    def _fail(self, name: str, place: int, expected: str) -> NoReturn:
        raise self._document.mistake((name, place), f"[[{name}]]: {expected}")
