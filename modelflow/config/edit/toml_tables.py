"""Keys and tables in a TOML text: changed, added, taken away, each as a splice."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.config.document import Document
from modelflow.config.edit.splice import Splice, indentation, line_end, line_start, removal
from modelflow.config.edit.toml_spans import is_inline, key_start, toml_key, toml_value, value_span
from modelflow.errors import ConfigError

Path = tuple[str | int, ...]

_HEADER = re.compile(r"""([ \t]*\[.*?[.\[][ \t]*)([\w-]+|"[^"]*"|'[^']*')[ \t]*\][ \t]*(?:#|\Z)""")


class TomlTables:
    """The tables of one TOML text."""

    def __init__(self, document: Document) -> None:
        """Takes a document that was read from TOML."""
        self._document = document
        self._text = document.text

    def value(self, path: Path) -> Any:
        """Returns what stands at ``path``; None where nothing does."""
        found: Any = self._document.values
        for part in path:
            if isinstance(found, Mapping):
                found = found.get(str(part))
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def replace_value(self, path: Path, value: Any) -> list[Splice]:
        """Returns the splices that give a key another value, of the type of the old one."""
        old = self.value(path)
        value = _convert_type(value, old)
        if old == value and type(old) is type(value):
            return []
        return [Splice(*value_span(self._text, path), toml_value(value))]

    def with_key(self, table: Path, key: str, value: Any) -> list[Splice]:
        """Returns the splices that add a key behind the others of a table, which may be new."""
        spans = self._own_spans(table)
        line = f"{toml_key(key)} = {toml_value(value)}"
        if not spans:
            return [self._with_first_key(table, line)]
        start, end = max(spans)
        if is_inline(self._text, table):
            return [Splice(end, end, f", {line}")]
        first = key_start(self._text, start)
        prefix = _before_last_dot(self._text[first:start])
        place = self._line_stop(end)
        before = line_end(self._text, place) + indentation(self._text, first)
        return [Splice(place, place, f"{before}{prefix}{line}")]

    def without_key(self, path: Path) -> list[Splice]:
        """Returns the splices that take a key away."""
        start, end = value_span(self._text, path)
        first = key_start(self._text, start)
        if is_inline(self._text, path[:-1]):
            return [_out_of_list(self._text, first, end)]
        return [removal(self._text, first, end)]

    def with_table(self, name: str, values: Mapping[str, Any], behind: str) -> list[Splice]:
        """Returns the splices that add a table to a list of tables.

        Args:
            name: The list.
            values: What the table says.
            behind: The list whose last table it is to follow, where this one is not there yet.
        """
        pairs = [f"{toml_key(key)} = {toml_value(value)}" for key, value in values.items()]
        given = self.value((name,))
        inline = "{" + ", ".join(pairs) + "}"
        if given == []:
            return [Splice(*value_span(self._text, (name,)), f"[{inline}]")]
        if given and not self.has_header((name, 0)):
            start, end = value_span(self._text, (name, len(given) - 1))
            is_first = not self._text[line_start(self._text, start) : start].strip()
            before = line_end(self._text, end) + indentation(self._text, start) if is_first else " "
            return [Splice(end, end, f",{before}{inline}")]
        if not given and self.value((behind,)) and not self.has_header((behind, 0)):
            stop = self._line_stop(value_span(self._text, (behind,))[1])
            return [Splice(stop, stop, f"{line_end(self._text, stop)}{name} = [{inline}]")]
        last = name if given else behind
        tables = self.value((last,))
        place = self._table_span((last, len(tables) - 1))[1] if tables else len(self._text)
        newline = line_end(self._text, 0)
        lines = [f"[[{name}]]", *pairs]
        block = newline + "".join(line + newline for line in lines)
        if place and not self._text[:place].endswith("\n"):
            block = newline + block
        return [Splice(place, place, block)]

    def rename(self, table: Path, name: str) -> list[Splice]:
        """Returns the splices that give a table another name in its header.

        Raises:
            ConfigError: it has no header of its own.
        """
        number = self._document.lines.get(table, 0)
        header = _HEADER.match(self._document.line(number))
        if header is None or str(table[-1]) not in (header[2], header[2][1:-1]):
            where = ".".join(map(str, table))
            raise ConfigError(f"{where}: is not written as [{where}]; rename it by hand first")
        start = self._line_start(number)
        return [Splice(start + header.start(2), start + header.end(2), toml_key(name))]

    def has_header(self, table: Path) -> bool:
        """Tells whether a table of a list has a ``[[...]]`` of its own."""
        return table in self._document.lines

    def without_tables(self, name: str, places: Sequence[int]) -> list[Splice]:
        """Returns the splices that take tables of a list away, and a blank line before each."""
        if not places:
            return []
        if self.has_header((name, 0)):
            return [self._without_table((name, place)) for place in places]
        runs: list[list[int]] = []
        for place in places:  # neighbours go together, with one comma
            if runs and runs[-1][-1] == place - 1:
                runs[-1].append(place)
            else:
                runs.append([place])
        spans = [[value_span(self._text, (name, place)) for place in run] for run in runs]
        return [_out_of_list(self._text, run[0][0], run[-1][1]) for run in spans]

    # -- places ---------------------------------------------------------------------------------

    def _without_table(self, table: Path) -> Splice:
        start, end = self._table_span(table)
        before = line_start(self._text, max(start - 1, 0))
        start = start if self._text[before:start].strip() else before
        return Splice(start, end, "")

    def _table_span(self, table: Path) -> tuple[int, int]:
        """Returns the lines from a table's header to its last key."""
        lines = self._document.lines
        own = [line for path, line in lines.items() if path[: len(table)] == table]
        ends = [end for _, end in self._spans(table)]
        end = max(self._line_start(max(own) + 1), *map(self._line_stop, ends))
        if not self._text[:end].endswith("\n"):
            end = self._text.find("\n", end) + 1 or len(self._text)
        return self._line_start(lines[table]), end

    def _spans(self, table: Path) -> list[tuple[int, int]]:
        """Returns the spans of the values in a table, and in those inside it."""
        found = []
        for key, value in (self.value(table) or {}).items():
            if isinstance(value, Mapping) and not is_inline(self._text, (*table, key)):
                found += self._spans((*table, key))
            else:
                found.append(value_span(self._text, (*table, key)))
        return found

    def _own_spans(self, table: Path) -> list[tuple[int, int]]:
        return [
            value_span(self._text, (*table, key))
            for key, value in (self.value(table) or {}).items()
            if not isinstance(value, Mapping) and not _is_tables(value)
        ]

    def _with_first_key(self, table: Path, line: str) -> Splice:
        newline = line_end(self._text, 0)
        header = self._document.lines.get(table)
        if header is not None and self.value(table) is not None:
            if is_inline(self._text, table):
                start, end = value_span(self._text, table)
                return Splice(start, end, f"{{{line}}}")
            place = self._line_stop(self._line_start(header))
            return Splice(place, place, newline + line)
        before = "" if not self._text or self._text.endswith("\n") else newline
        name = ".".join(toml_key(str(part)) for part in table)
        blank = newline if self._text.strip() else ""
        place = len(self._text)
        return Splice(place, place, f"{before}{blank}[{name}]{newline}{line}{newline}")

    def _line_start(self, number: int) -> int:
        """Returns where a line begins, counted from 1 as the document does."""
        return sum(map(len, self._text.splitlines(keepends=True)[: number - 1]))

    def _line_stop(self, place: int) -> int:
        """Returns where the line of a place ends, before its line end."""
        end = self._text.find("\n", place)
        end = len(self._text) if end < 0 else end
        return end - self._text[place:end].endswith("\r")


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _before_last_dot(key: str) -> str:
    """Returns what stands in a written key up to its last dot outside of quotes."""
    place = 0
    for found in re.finditer(r"""\.[ \t]*|"(?:[^"\\]|\\.)*"|'[^']*'""", key):
        place = found.end() if found[0].startswith(".") else place
    return key[:place]


def _out_of_list(text: str, start: int, end: int) -> Splice:
    """Returns the splice that takes an item out of ``[...]`` or ``{...}``, with one comma."""
    before = text[:start].rstrip()
    if before.endswith(","):
        return Splice(len(before[:-1].rstrip()), end, "")
    behind = re.compile(r"[ \t]*,\s*").match(text, end)
    return Splice(start, behind.end() if behind else end, "")


def _convert_type(value: Any, old: Any) -> Any:
    """Returns a text as a number or a truth where the old value is one."""
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
