"""Where values stand in a TOML text, and how the characters of its texts are written."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.config.edit.splice import Splice
from modelflow.errors import ConfigError

Path = Sequence[str | int]

_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*[ \t]*=[ \t]*\Z")


def value_span(text: str, path: Path) -> tuple[int, int]:
    """Returns the span of the value that stands at ``path``.

    Raises:
        ConfigError: it cannot be told from what is around it.
    """
    import tomlkit

    mark = "_span_"
    while mark in text:
        mark += "_"
    document = tomlkit.parse(text)
    _at(document, path[:-1])[path[-1]] = mark
    marked, written = tomlkit.dumps(document), f'"{mark}"'
    start = marked.find(written)
    end = start + len(text) - len(marked) + len(written)
    if start < 0 or text[:start] + written + text[end:] != marked:
        where = ".".join(map(str, path))
        raise ConfigError(
            f"{where}: the file is written in a way in which this cannot be changed; change it by "
            "hand, or write the file anew: modelflow convert FILE -o NEW.toml"
        )
    return start, end


def is_inline(text: str, path: Path) -> bool:
    """Tells whether the table at ``path`` is written in braces."""
    import tomlkit
    from tomlkit.items import InlineTable

    return isinstance(_at(tomlkit.parse(text), path), InlineTable)


def _at(document: Any, path: Path) -> Any:
    for part in path:
        document = document[part]
    return document


def key_start(text: str, value_start: int) -> int:
    """Returns where the key begins, with its dots, whose value begins at ``value_start``."""
    line = text.rfind("\n", 0, value_start) + 1
    found = _KEY.search(text, line, value_start)
    return found.start() if found else value_start


def toml_key(name: str) -> str:
    """Returns a key as it is written."""
    import tomlkit

    return str(tomlkit.key(name).as_string())


def toml_value(value: Any) -> str:
    """Returns a value as it is written; a table in braces.

    Raises:
        ConfigError: TOML cannot hold it.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if isinstance(value, Mapping):
        pairs = (f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    try:
        return str(tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string())
    except (TOMLKitError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{value!r:.60} cannot be written as TOML; give a text, a number or a list"
        ) from error


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<one>[btnfre\"\\])"
    r"|[ \t]*\r?\n\s*)"
)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


class TomlString:
    """A text of a TOML file: what it says, and where each character of it is written.

    Attributes:
        text: What it says; line ends as they are in the file.
        line: The line of the file in which it begins.
    """

    def __init__(self, source: str, start: int, end: int) -> None:
        """Takes the span of the text in ``source``, with its quotes."""
        quote = source[start]
        is_long = source.startswith(quote * 3, start) and end - start >= 6
        self._quotes = quote * 3 if is_long else quote
        self._source = source
        inside, stop = start + len(self._quotes), end - len(self._quotes)
        if len(self._quotes) == 3:
            inside += 2 if source.startswith("\r\n", inside) else source.startswith("\n", inside)
        self.line = source.count("\n", 0, inside) + 1
        characters: list[str] = []
        self._places: list[int] = []
        while inside < stop:
            found = _ESCAPE.match(source, inside, stop) if quote == '"' else None
            character = source[inside] if found is None else _character(found)
            if character:
                characters.append(character)
                self._places.append(inside)
            inside = inside + 1 if found is None else found.end()
        self._places.append(stop)
        self.text = "".join(characters)

    def splice(self, inner: Splice) -> Splice:
        """Returns the splice of the file that a splice of the text comes to.

        Raises:
            ConfigError: a text in these quotes cannot hold what is put in.
        """
        start, end = self._places[inner.start], self._places[inner.end]
        beside = self._source[start - 1] + self._source[end]
        return Splice(start, end, self._write(inner.text, '"' in beside))

    def _write(self, text: str, is_by_quote: bool) -> str:
        is_long = len(self._quotes) == 3
        if self._quotes[0] == "'":
            if "'" in text or (not is_long and "\n" in text):
                raise ConfigError(
                    f"{text!r:.60} cannot be written in a TOML text in {self._quotes}; write the "
                    'file anew: modelflow convert FILE --format graphviz, or give it """'
                )
            return text
        written = text.replace("\\", "\\\\")
        if is_by_quote or not is_long or '""' in written:
            written = written.replace('"', '\\"')
        return written if is_long else written.replace("\r", "\\r").replace("\n", "\\n")


def _character(escape: re.Match[str]) -> str:
    if code := escape["short"] or escape["long"]:
        return chr(int(code, 16))
    return _ESCAPED.get(escape["one"], escape["one"]) if escape["one"] else ""
