"""A structured file as plain values with the line of every key, and the parser for TOML."""

import os
import pathlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from modelflow.errors import ConfigError, Finding, Location, did_you_mean
from modelflow.unit.option import REQUIRED, Option

# Limits of a graph file: a text from outside must be read in bounded time and memory.
MOST_BYTES = 2 << 20
MOST_NESTED = 50

# Suffix of a graph file -> its format.
FORM_BY_SUFFIX = {
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".dot": "dot",
    ".gv": "dot",
}

# The path to a value: keys, and positions in lists.
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The content of a file.

    Attributes:
        values: The values, nested.
        lines: The line of each key, counted from 1.
        file: The name of the file, for messages.
        text: The text.
    """

    values: dict[str, Any]
    lines: Mapping[Path, int]
    file: str
    text: str = ""

    def at(self, *path: str | int) -> Location:
        """Returns the location of ``path``, or of its nearest parent with a known line."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return Location(self.file, self.lines[path[:length]])
        return Location(self.file)

    def mistake(self, path: Path, message: str) -> ConfigError:
        """Returns an error for a mistake at ``path``."""
        at = self.at(*path)
        return mistake(at.file, at.line, message)

    def line(self, number: int | None) -> str:
        """Returns a line of the text, counted from 1, or "" for a line that does not exist."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if number and number <= len(lines) else ""

    def first_line(self, path: Path) -> int:
        """Returns the first line of a text value; TOML drops a line break after the quotes."""
        number = self.at(*path).line
        line = self.line(number).rstrip()
        is_open = any(line.endswith(one) and line.count(one) == 1 for one in ("'''", '"' * 3))
        return (number or 1) + (is_open or line.endswith(("|", "|-", "[")))


def read_toml(text: str, file: str) -> Document:
    """Parses TOML.

    Raises:
        ConfigError: The text is not TOML, or nested too deeply; the message has the line.
    """
    # tomllib needs quadratic time and memory for a dotted key.
    if long_key := _LONG_KEY.search(text):
        raise mistake(
            file,
            text.count("\n", 0, long_key.start()) + 1,
            f"TOML: got a key of more than {MOST_NESTED} parts",
        )
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*) \(at line (\d+)", str(error))
        line = int(found[2]) if found else text.count("\n") + 1
        what = found[1] if found else str(error)
        raise mistake(file, line, f"TOML: {what}{_toml_hint(text, line, what)}") from error
    except RecursionError as error:
        raise mistake(
            file, _line_of_nesting(text), f"TOML: values are nested more than {MOST_NESTED} deep"
        ) from error
    except ValueError as error:  # Python limits the number of digits
        raise mistake(file, _line_of_number(text), f"TOML: {error}") from error
    return Document(values, _toml_lines(text), file, text)


def _toml_hint(text: str, line: int, what: str) -> str:
    """Returns a hint for a line that is not TOML: the line, and the usual mistake.

    Args:
        text: The whole text.
        line: The line with the error.
        what: The message of the parser.
    """
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return ""
    written = lines[line - 1].strip()
    hint = f" in {written[:80]!r}"
    is_value = what.startswith(("Invalid value", "Expected newline or end of document"))
    if is_value and (bare := _BARE_TEXT.fullmatch(written)):
        is_flag = bare[2].lower() in ("true", "false")
        hint += (
            f"; expected {bare[1]} = {bare[2].lower()}"
            if is_flag
            else f'; a text needs quotes: {bare[1]} = "{bare[2]}"'
        )
    return hint


def check_values(document: Document) -> None:
    """Checks values for content that some format allows and no graph can use.

    Raises:
        ConfigError: Values are nested too deeply, a key is no text, or a number has more than 64
            bits. The message has the line.
    """
    pending: list[tuple[Path, Any]] = [((), document.values)]
    while pending:
        path, value = pending.pop()
        inner: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, Mapping):
            inner = value.items()
        elif isinstance(value, list | tuple):
            inner = enumerate(value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise document.mistake(path, f"{path[-1]}: got a number of more than 64 bits")
        if len(path) > MOST_NESTED:
            raise document.mistake(path, f"values are nested more than {MOST_NESTED} deep")
        for key, item in inner:
            if isinstance(value, Mapping) and not isinstance(key, str):
                said = f"got the key {key!r} ({type(key).__name__}); expected a text: quote it"
                raise document.mistake((*path, str(key)), said)
            pending.append(((*path, key), item))


def read_text(path: pathlib.Path) -> str:
    """Returns the text of a graph file.

    Raises:
        ConfigError: The file does not exist, is a folder, is too long, or is not UTF-8.
    """
    try:
        if path.is_dir():
            inside = sorted(file.name for file in path.iterdir() if file.suffix in FORM_BY_SUFFIX)
            found = f"; in it are {', '.join(inside[:5])}" if inside else ""
            raise ConfigError(f"{path}: is a folder; expected a graph file{found}")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        folder = path.parent
        near = did_you_mean(path.name, os.listdir(folder) if folder.is_dir() else ())
        raise ConfigError(f"{path}: there is no such file{near}") from error
    except OSError as error:
        raise ConfigError(f"{path!s:.200}: cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise ConfigError(f"{path}: has more than {MOST_BYTES} bytes; expected a graph file")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise mistake(str(path), line, f"cannot be read: {error}; save it as UTF-8") from error


def mistake(file: str, line: int | None, message: str) -> ConfigError:
    """Returns an error for one mistake in a file."""
    return ConfigError([Finding(Location(file, line), message, error=ConfigError)])


def _line_of_number(text: str) -> int | None:
    """Returns the line of the first number that is too long for Python."""
    found = _LONG_NUMBER.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else None


_LONG_NUMBER = re.compile(r"[\d_]{4300,}+")
# Possessive, and anchored at the start of a part: linear in the length of the text.
_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
    r"""(?:\s*+\.\s*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+'))"""
    rf"{{{MOST_NESTED}}}"
)
_LONGEST_HEADER = 4096  # characters of a line that are searched for a key, as patterns backtrack
# A text without quotes: name = small.
_BARE_TEXT = re.compile(r"([\w.-]+)\s*=\s*([\w./$~:-][^\"'\[\]{}#,]*?)\s*(?:#.*)?")
# A header of TOML. The second group is the name, with its dots.
TOML_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_PART = re.compile(r"""[\w-]+|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*'""")
_KEY = re.compile(rf"\s*((?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*)\s*=")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# A quoted text or a comment.
_TEXT = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|"(?:[^"\\\n]|\\.)*+"|#[^\n]*+'''
    r"""|'''.*?'{3,5}|'[^'\n]*+'""",
    re.DOTALL,
)


class TomlStatement(NamedTuple):
    """One statement of TOML with its whole lines: a header, or a key and its value.

    Attributes:
        start, end: The span, including the line end.
        line: The first line, counted from 1.
        table: The table of the key, or the table that the header opens.
        path: The path of the value.
    """

    start: int
    end: int
    line: int
    table: Path
    path: Path

    @property
    def is_header(self) -> bool:
        """Tells whether the statement is a header, which opens a table."""
        return self.path == self.table


def toml_statements(text: str) -> list[TomlStatement]:
    """Returns the statements of a text that is valid TOML."""
    found: list[TomlStatement] = []
    counts: dict[Path, int] = {}
    table: Path = ()
    nesting = start = 0  # nesting: open brackets of a value with several lines
    lines = zip(_LINE.findall(text), _LINE.findall(without_texts(text)), strict=True)
    for number, (line, bare) in enumerate(lines, 1):
        end = start + len(line)
        if not nesting and bare.lstrip().startswith("["):
            if header := TOML_HEADER.match(line.rstrip("\r\n"), 0, _LONGEST_HEADER):
                table = _table(header[1] == "[[", _parts(header[2]), counts)
                found.append(TomlStatement(start, end, number, table, table))
        else:
            key = _KEY.match(line, 0, _LONGEST_HEADER) if not nesting and "=" in bare else None
            if key:
                path = (*table, *_parts(key[1]))
                found.append(TomlStatement(start, end, number, table, path))
            elif bare.strip() and found:  # a value continues
                found[-1] = found[-1]._replace(end=end)
            nesting += _count_opened(bare)
        start = end
    return found


def _toml_lines(text: str) -> dict[Path, int]:
    """Returns the lines of the tables and keys of a valid TOML text."""
    lines: dict[Path, int] = {}
    for statement in toml_statements(text):
        # A header [a.b] also creates the table a, which gets the line of its first mention.
        for length in range(
            1 if statement.is_header else len(statement.table) + 1, len(statement.path)
        ):
            lines.setdefault(statement.path[:length], statement.line)
        if statement.is_header:
            lines[statement.path] = statement.line
        else:
            lines.setdefault(statement.path, statement.line)
    return lines


def find_comments(text: str) -> list[str]:
    """Returns the comments of a TOML text, without trailing blanks."""
    return [found[0].rstrip() for found in _TEXT.finditer(text) if found[0].startswith("#")]


def without_texts(text: str) -> str:
    """Returns TOML with ``~`` in place of quoted texts, and blanks in place of comments."""
    return _TEXT.sub(lambda found: re.sub(r"\S", " ~"[found[0][0] != "#"], found[0]), text)


def _count_opened(bare: str) -> int:
    """Returns the brackets that a line opens minus the brackets that the line closes."""
    return sum(map(bare.count, "[{")) - sum(map(bare.count, "]}"))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(
        next(iter(tomllib.loads(f"{part} = 0"))) if part[0] in "\"'" else part
        for part in _PART.findall(text)
    )


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


def _line_of_nesting(text: str) -> int | None:
    """Returns the line where brackets exceed the allowed depth of values."""
    nesting = 0
    for number, bare in enumerate(without_texts(text).splitlines(), 1):
        if nesting + sum(map(bare.count, "[{")) > MOST_NESTED:
            return number
        nesting += _count_opened(bare)
    return None


class KeyReader:
    """A reader for tables of one document, which collects mistakes.

    Attributes:
        findings: The mistakes so far, each with its line.
    """

    def __init__(self, document: Document) -> None:
        """Takes the document, for the lines of its keys."""
        self.findings: list[Finding] = []
        self._document = document

    def at(self, *path: str | int) -> Location:
        """Returns the location of a key, or of its parent."""
        return self._document.at(*path)

    def wrong(self, path: Sequence[str | int], message: str) -> None:
        """Adds a mistake at a key to `findings`."""
        self.findings.append(Finding(self.at(*path), message, error=ConfigError))

    def table(self, path: Sequence[str], given: Any) -> Mapping[str, Any]:
        """Returns the table ``given`` at ``path``; any other value gives an empty mapping."""
        if isinstance(given, Mapping):
            return given
        where = f"[{'.'.join(path)}]"
        self.wrong(path, f"{where}: got {given!r:.60}; expected a section {where}")
        return {}

    def read(self, path: Sequence[str], given: Any, options: Sequence[Option]) -> dict[str, Any]:
        """Returns the converted values of a table; a missing or wrong key gets its default.

        A missing key that is required gets ``""``.

        Args:
            path: The path of the table.
            given: The value at the path.
            options: The keys of the table.
        """
        where, table = f"[{'.'.join(path)}]", self.table(path, given)
        known = {name: option for option in options for name in (option.name, *option.aliases)}
        found = {o.name: "" if o.default is REQUIRED else o.default for o in options}
        for key, value in table.items():
            if key not in known:
                near, names = did_you_mean(key, known), ", ".join(o.name for o in options)
                self.wrong((*path, key), f"{where}: unknown key {key!r}{near} (keys: {names})")
                continue
            try:
                found[known[key].name] = known[key].convert(value, f"key {key!r}")
            except ConfigError as error:
                self.wrong((*path, key), f"{where}: {error}")
        for option in options:
            if option.default is REQUIRED and not table.get(option.name, ""):
                self.wrong(path, f"{where}: {option.name!r} is required: {option.help}")
        return found
