"""A structured file (TOML, YAML, JSON) as plain values, with the line of every key."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.errors import ConfigError, Finding, Location

__all__ = ["Document", "read_json", "read_toml", "read_yaml"]

# The way to a value: keys and places in lists.
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """What a file says.

    Attributes:
        values: The values, nested.
        lines: The line of each key, counted from 1.
        file: Where it was read from, for messages.
        text: The text itself.
    """

    values: dict[str, Any]
    lines: Mapping[Path, int]
    file: str
    text: str = ""

    def at(self, *path: str | int) -> Location:
        """Returns where ``path`` stands, or what holds it where that is not known."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return Location(self.file, self.lines[path[:length]])
        return Location(self.file)

    def line(self, number: int | None) -> str:
        """Returns a line of the text, counted from 1; "" where there is none."""
        lines = self.text.splitlines()
        return lines[number - 1] if number and number <= len(lines) else ""


def read_toml(text: str, file: str) -> Document:
    """Reads TOML.

    Raises:
        ConfigError: it is not TOML; the message has the line.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*) \(at line (\d+)", str(error))
        line = int(found[2]) if found else text.count("\n") + 1
        raise _wrong(file, line, f"TOML: {found[1] if found else error}") from error
    return Document(values, _toml_lines(text), file, text)


def read_yaml(text: str, file: str) -> Document:
    """Reads YAML (plain values only).

    Raises:
        ConfigError: it is not YAML, or no mapping; the message has the line.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise _wrong(file, mark.line + 1 if mark else None, f"YAML: {problem}") from error
    except (ValueError, RecursionError) as error:
        raise _wrong(file, None, f"YAML: {error}") from error
    lines: dict[Path, int] = {}
    if node is not None:
        _yaml_lines(node, (), lines)
    return Document(_mapping(values, file), lines, file, text)


def read_json(text: str, file: str) -> Document:
    """Reads JSON.

    Raises:
        ConfigError: it is not JSON, or no object; the message has the line.
    """
    import yaml

    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise _wrong(file, error.lineno, f"JSON: {error.msg}") from error
    except RecursionError as error:
        raise _wrong(file, None, f"JSON: {error}") from error
    lines: dict[Path, int] = {}
    try:
        # JSON is YAML but for tabs between tokens: lines are a help, not the reading itself.
        node = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError):
        return Document(_mapping(values, file), lines, file, text)
    if node is not None:
        _yaml_lines(node, (), lines)
    return Document(_mapping(values, file), lines, file, text)


def _mapping(values: Any, file: str) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong(file, 1, f"got {type(values).__name__} at the top; expected sections")
    return values


def _wrong(file: str, line: int | None, message: str) -> ConfigError:
    return ConfigError([Finding(Location(file, line), message, error=ConfigError)])


def _yaml_lines(node: Any, path: Path, lines: dict[Path, int], depth: int = 0) -> None:
    if depth > 100:
        return
    lines.setdefault(path, node.start_mark.line + 1)
    if node.id == "mapping":
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            _yaml_lines(value, here, lines, depth + 1)
    elif node.id == "sequence":
        for place, value in enumerate(node.value):
            _yaml_lines(value, (*path, place), lines, depth + 1)


_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*)\s*="""
)
_PART = re.compile(r"""[\w-]+|"[^"\n]*"|'[^'\n]*'""")
_CLOSING = {'"': re.compile(r'(?:[^"\\]|\\.)*"'), "'": re.compile(r"[^']*'")}
_MULTILINE = ("'''", '"""')


def _toml_lines(text: str) -> dict[Path, int]:
    """Finds the lines of tables and keys of a text that is known to be TOML."""
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    end = ""  # the quotes of the text that we are inside of
    nesting = 0  # of brackets of a value that goes over several lines
    for number, line in enumerate(text.splitlines(), 1):
        if not end and not nesting:
            if header := _HEADER.match(line):
                table = _table(header[1] == "[[", _parts(header[2]), counts)
                lines[table] = number
                continue
            if key := _KEY.match(line):
                path = (*table, *_parts(key[1]))
                for length in range(len(table) + 1, len(path) + 1):
                    lines.setdefault(path[:length], number)
                end, nesting = _value_end(line[key.end() :], end, nesting)
                continue
        end, nesting = _value_end(line, end, nesting)
    return lines


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(text))


def _table(is_list: bool, parts: tuple[str, ...], counts: dict[Path, int]) -> Path:
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, parts[-1])
    if is_list:
        counts[path] = counts.get(path, 0) + 1
        path = (*path, counts[path] - 1)
    return path


def _value_end(line: str, end: str, nesting: int) -> tuple[str, int]:
    """Follows quotes and brackets through a line; returns what is still open behind it."""
    place = 0
    while place < len(line):
        if end:
            close = line.find(end, place)
            if close < 0:
                return end, nesting
            place, end = close + len(end), ""
            continue
        if line.startswith(_MULTILINE, place):
            end, place = line[place : place + 3], place + 3
        elif line[place] in "\"'":
            quote = line[place]
            closing = _CLOSING[quote].match(line, place + 1)
            place = closing.end() if closing else len(line)
        elif line[place] == "#":
            break
        else:
            nesting += {"[": 1, "{": 1, "]": -1, "}": -1}.get(line[place], 0)
            place += 1
    return end, nesting
