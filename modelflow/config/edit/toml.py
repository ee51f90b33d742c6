"""Edits of one TOML text: keys, lists of tables, and the nodes and edges in them."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from modelflow.config.document import (
    TOML_HEADER,
    Document,
    Path,
    TomlStatement,
    find_comments,
    toml_statements,
    without_texts,
)
from modelflow.config.edit.meaning import Edge, Meaning
from modelflow.config.edit.statements import Splice, apply_splices, find_lost, indentation, is_first
from modelflow.config.flow_config import PortRef, format_port, read_port
from modelflow.errors import ConfigError

# These keys have their own meaning in a node's table; attributes with these names are in
# ``config``.
_TAKEN = ("name", "config")


class TomlEdits:
    """The edits of a TOML text; each method returns the new text.

    The methods expect that the edited nodes and edges exist. `modelflow.config.edit.graph_text`
    checks afterwards that the new text has the expected meaning.

    Attributes:
        meaning: The meaning of the text, if its graph is in ``[[node]]`` and ``[[edge]]``.
    """

    def __init__(self, document: Document) -> None:
        """Takes the parsed file.

        Raises:
            ConfigError: A node or an edge has another form.
        """
        self._document = document
        self._text = document.text
        self._statements = toml_statements(self._text)
        self._pairs = {one.path: one for one in self._statements if not one.is_header}
        self._last = {one.table: one for one in self._statements}
        self._places: dict[str, int] = {}
        given: dict[str, dict[str, Any]] = {}
        for place, table in enumerate(self._list("node")):
            name, options = table.get("name"), table.get("config", {})
            if not isinstance(name, str) or not isinstance(options, Mapping) or name in given:
                self._fail("node", place, "expected a name of its own, and config = {...}")
            given[name] = {**{key: table[key] for key in table if key not in _TAKEN}, **options}
            self._places[name] = place
        edges = tuple(self._edge(place, table) for place, table in enumerate(self._list("edge")))
        sections = {key: document.values[key] for key in document.values.keys() - {"node", "edge"}}
        self.meaning = Meaning(tuple(given), given, edges, sections)

    # -- nodes and edges ------------------------------------------------------------------------

    def value_of(self, value: Any, old: Any) -> Any:
        """Returns a value as in TOML; the old value decides between text, number and boolean.

        Raises:
            ConfigError: TOML cannot represent the value.
        """
        return tomllib.loads(f"value = {toml_value(_convert_type(value, old))}")["value"]

    def give(self, values: Mapping[str, Mapping[str, Any]]) -> str:
        """Sets attributes of nodes, in their tables or in ``config``; None removes an attribute."""
        changes: dict[Path, Any] = {}
        for node, attributes in values.items():
            table: Path = ("node", self._places[node])
            for key, value in attributes.items():
                options = self.value((*table, "config"))
                if key in (options or {}) or (key in _TAKEN and options is not None):
                    changes[(*table, "config", key)] = value
                elif key in _TAKEN:
                    changes.setdefault((*table, "config"), {})[key] = value
                else:
                    changes[(*table, key)] = value
        return self.change(changes)

    def add_node(self, name: str, attributes: Mapping[str, Any]) -> str:
        """Adds a node behind the last node.

        Raises:
            ConfigError: TOML cannot represent a value.
        """
        own = {key: value for key, value in attributes.items() if key not in _TAKEN}
        options = {key: value for key, value in attributes.items() if key in _TAKEN}
        return self._append(
            "node", {"name": name, **own, **({"config": options} if options else {})}
        )

    def remove_node(self, name: str) -> str:
        """Removes a node, with its edges."""
        edges = [
            n for n, ends in enumerate(self.meaning.edges) if name in (ends[0].node, ends[1].node)
        ]
        return apply_splices(
            self._text, [*self._remove("node", [self._places[name]]), *self._remove("edge", edges)]
        )

    def rename(self, old: str, new: str) -> str:
        """Renames a node, also in its edges."""
        changes: dict[Path, Any] = {("node", self._places[old], "name"): new}
        for place, ends in enumerate(self.meaning.edges):
            for key, end in zip(("from", "to"), ends, strict=True):
                if end.node == old:
                    changes["edge", place, key] = format_port(PortRef(new, end.port))
        return self.change(changes)

    def connect(self, source: PortRef, target: PortRef) -> str:
        """Adds an edge behind the last edge."""
        return self._append("edge", {"from": format_port(source), "to": format_port(target)})

    def disconnect(self, source: PortRef, target: PortRef) -> str:
        """Removes all edges between two ports."""
        edges = enumerate(self.meaning.edges)
        places = [place for place, edge in edges if edge == (source, target)]
        return apply_splices(self._text, self._remove("edge", places))

    # -- keys -----------------------------------------------------------------------------------

    def value(self, path: Path) -> Any:
        """Returns the value at ``path``, or None."""
        found: Any = self._document.values
        for part in path:
            if isinstance(found, Mapping):
                found = found.get(str(part))
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def change(self, values: Mapping[Path, Any]) -> str:
        """Sets values of keys, or removes keys whose value is None.

        Raises:
            ConfigError: TOML cannot represent a value.
        """
        inside: dict[TomlStatement, dict[Path, Any]] = {}
        splices = []
        for path, value in values.items():
            statement = self._find(path)
            if statement is None:
                if self.value(path) is not None:  # a table with several statements
                    parts = (one for one in self._statements if one.path[: len(path)] == path)
                    splices += [self._replace(one, "") for one in parts]
                splices += [] if value is None else [self._new_key(path, value)]
            else:
                inside.setdefault(statement, {})[path[len(statement.table) :]] = value
        for statement, changes in inside.items():
            splices.append(self._replace(statement, self._write(statement, changes)))
        return apply_splices(self._text, splices)

    def rename_table(self, table: Path, name: str) -> str:
        """Renames a table in its header, and in the headers of tables inside.

        Raises:
            ConfigError: The table has no header of its own.
        """
        named = [one for one in self._statements if one.path[: len(table)] == table]
        if not named or any(one.table[: len(table)] != table for one in named):
            where = ".".join(map(str, table))
            raise ConfigError(f"{where}: is not written as [{where}]; rename it by hand first")
        splices = []
        for header in (one for one in named if one.is_header):
            path = (*table[:-1], name, *header.path[len(table) :])
            words = ".".join(toml_key(part) for part in path if isinstance(part, str))
            found = TOML_HEADER.match(self._text, header.start, header.end)
            assert found is not None  # every header matches
            splices.append(Splice(found.start(2), found.end(2), words))
        return apply_splices(self._text, splices)

    # -- statements -----------------------------------------------------------------------------

    def _find(self, path: Path) -> TomlStatement | None:
        """Returns the statement whose value contains, or will contain, ``path``."""
        paths = (path[:length] for length in range(1, len(path) + 1))
        return next((self._pairs[one] for one in paths if one in self._pairs), None)

    def _write(self, statement: TomlStatement, changes: Mapping[Path, Any]) -> str:
        """Returns a statement with changed values; the paths are relative to its table."""
        import tomlkit
        from tomlkit.items import String

        if changes.get(statement.path[len(statement.table) :], ...) is None:
            return ""
        parsed = tomlkit.parse(self._text[statement.start : statement.end])
        for path, value in changes.items():
            container: Any = parsed
            for part in path[:-1]:
                container = container[part]
            old = container.get(path[-1])
            if value is None:
                del container[path[-1]]
            elif isinstance(old, String) and isinstance(value, str):
                container[path[-1]] = tomlkit.value(_in_quotes(value, old.as_string()))
            else:
                container[path[-1]] = tomlkit.value(toml_value(value))
        return tomlkit.dumps(parsed)

    def _replace(self, statement: TomlStatement, written: str) -> Splice:
        """Returns the splice that rewrites a statement; comments that would be lost go before."""
        old = self._text[statement.start : statement.end]
        indent = indentation(old, 0)
        lost = find_lost(find_comments(old), find_comments(written))
        before = "".join(f"{indent}{comment}\n" for comment in lost)
        return Splice(statement.start, statement.end, before + written)

    def _new_key(self, path: Path, value: Any) -> Splice:
        """Returns the splice that adds a key behind the other keys of its table."""
        table = path[:-1]
        last = self._last.get(table)
        if last is None:
            last = [one for one in self._pairs.values() if one.path[: len(table)] == table][-1]
        blank = "" if last.is_header else indentation(self._text, last.start)
        return self._put_behind(last, f"{blank}{_pair(path[len(last.table) :], value)}\n")

    def _append(self, name: str, values: Mapping[str, Any]) -> str:
        """Adds a table to a list of tables."""
        item = toml_value(values)
        inline, nodes = self._pairs.get((name,)), self._pairs.get(("node",))
        if inline is not None:
            return apply_splices(self._text, self._put_into(inline, item))
        if nodes is not None and not self.value((name,)):
            splice = self._put_behind(nodes, f"{name} = [{item}]\n")
        else:
            listed = [name] if self.value((name,)) else ["node"]
            last = (*listed, len(self._list(listed[0])) - 1)
            own = [one for one in self._statements if one.path[:2] == last]
            pairs = "".join(_pair((key,), value) + "\n" for key, value in values.items())
            blank_line = "\n" * bool(self._text.strip())
            behind = max(own, default=None)
            splice = self._put_behind(behind, f"{blank_line}[[{name}]]\n{pairs}")
        return apply_splices(self._text, [splice])

    def _put_into(self, statement: TomlStatement, item: str) -> Iterator[Splice]:
        """Yields the splices that add an item at the end of the list of a key."""
        bare = without_texts(self._text[statement.start : statement.end])
        closing = statement.start + bare.rindex("]")
        inside = bare[: bare.rindex("]")].rstrip()
        last = statement.start + len(inside)
        comma = "" if inside.endswith(("[", ",")) else ","
        if is_first(self._text, closing):
            line = self._text.rfind("\n", 0, closing) + 1
            ending = "," * inside.endswith(",")
            yield Splice(last, last, comma)
            yield Splice(line, line, f"{indentation(self._text, last - 1)}{item}{ending}\n")
        else:
            yield Splice(last, last, f"{comma}{' ' * (not inside.endswith('['))}{item}")

    def _remove(self, name: str, places: Sequence[int]) -> Iterator[Splice]:
        """Yields the splices that remove tables of a list, each with the blank line before."""
        import tomlkit

        inline = self._pairs.get((name,))
        if not places:
            return
        if inline is not None:
            parsed: Any = tomlkit.parse(self._text[inline.start : inline.end])
            for place in reversed(places):
                del parsed[name][place]
            yield self._replace(inline, tomlkit.dumps(parsed))
            return
        gone = {(name, place) for place in places}
        for one in self._statements:
            if one.path[:2] in gone:
                splice = self._replace(one, "")
                is_under_blank = one.is_header and self._text.endswith("\n\n", 0, one.start)
                yield splice._replace(start=splice.start - is_under_blank)

    def _put_behind(self, statement: TomlStatement | None, lines: str) -> Splice:
        """Returns the splice that adds whole lines behind a statement, or at the end."""
        place = len(self._text) if statement is None else statement.end
        is_ended = not place or self._text[place - 1] == "\n"
        return Splice(place, place, lines if is_ended else "\n" + lines)

    # -- statements -----------------------------------------------------------------------------

    def _list(self, name: str) -> list[Mapping[str, Any]]:
        found = self.value((name,)) or []
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


def toml_key(name: str) -> str:
    """Returns a key in TOML syntax."""
    import tomlkit

    return str(tomlkit.key(name).as_string())


def toml_value(value: Any) -> str:
    """Returns a value in TOML syntax; a mapping becomes an inline table.

    Raises:
        ConfigError: TOML cannot represent the value.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if isinstance(value, Mapping):
        pairs = (_pair((key,), item) for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    try:
        return str(tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string())
    except (TOMLKitError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{value!r:.60} cannot be written as TOML; give a text, a number or a list"
        ) from error


def _in_quotes(text: str, old: str) -> str:
    """Returns a text in the quotes of an old text, or in quotes that can contain the text.

    Args:
        text: The text.
        old: The old text with its quotes.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    is_long = old.startswith(("'''", '"""'))
    try:
        written = tomlkit.string(text, literal=old[0] == "'", multiline=is_long).as_string()
    except TOMLKitError:
        written = tomlkit.string(text, multiline=True).as_string()
    starts_below = old.startswith(("'''\n", '"""\n'))
    return f"{written[:3]}\n{written[3:]}" if starts_below else written


def _pair(path: Path, value: Any) -> str:
    return f"{'.'.join(toml_key(str(part)) for part in path)} = {toml_value(value)}"


def _convert_type(value: Any, old: Any) -> Any:
    """Returns a text as a number or boolean if the old value has such a type."""
    if not isinstance(value, str) or isinstance(old, str):
        return value
    if isinstance(old, bool):
        return {"true": True, "false": False}.get(value, value)
    for kind in (int, float):
        try:
            if isinstance(old, int | float) and str(kind(value)) == value:
                return kind(value)
        except ValueError:
            continue
    return value
