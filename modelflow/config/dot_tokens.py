"""The words of a DOT text, each with its line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from modelflow.errors import ConfigError, Finding, Location

__all__ = ["Token", "TokenKind", "tokens_of"]


class TokenKind(Enum):
    """What a token is."""

    ID = "a name"
    QUOTED = "a quoted text"
    HTML = "an HTML text"
    SYMBOL = "a symbol"
    END = "the end of the text"


@dataclass(frozen=True, slots=True)
class Token:
    """One word: its kind, its text (without quotes and escapes), its line counted from 1."""

    kind: TokenKind
    text: str
    line: int

    @property
    def is_value(self) -> bool:
        """Tells whether it can be a name or a value."""
        return self.kind in (TokenKind.ID, TokenKind.QUOTED, TokenKind.HTML)


_SKIP = re.compile(r"(?:\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)+", re.DOTALL)
# Beyond Graphviz, a name may hold a variable of the environment: ${NAME}.
_WORD = re.compile(
    r"-?(?:\.\d+|\d+(?:\.\d*)?)"
    r"|(?:\$\{\w+\}|[A-Za-z_\u0080-\U0010ffff$])(?:\$\{\w+\}|[\w\u0080-\U0010ffff$])*"
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SYMBOL = re.compile(r"->|--|[{}\[\]=;,:+]")


def tokens_of(text: str, file: str, first_line: int = 1) -> Iterator[Token]:
    """Gives the tokens of ``text``, whose first line is line ``first_line`` of ``file``.

    Raises:
        ConfigError: a character that begins no token, or a text or comment that does not end.
    """
    position, line = 0, first_line
    while True:
        skipped = _SKIP.match(text, position)
        if skipped:
            line += skipped.group().count("\n")
            position = skipped.end()
        if position >= len(text):
            yield Token(TokenKind.END, "", line)
            return
        token, length = _token(text, position, Location(file, line))
        yield token
        line += text.count("\n", position, position + length)
        position += length


def _token(text: str, position: int, at: Location) -> tuple[Token, int]:
    line = at.line or 0
    if quoted := _QUOTED.match(text, position):
        inner = quoted[1].replace("\\\n", "").replace('\\"', '"')
        return Token(TokenKind.QUOTED, inner, line), len(quoted[0])
    if symbol := _SYMBOL.match(text, position):
        return Token(TokenKind.SYMBOL, symbol[0], line), len(symbol[0])
    if word := _WORD.match(text, position):
        return Token(TokenKind.ID, word[0], line), len(word[0])
    if text[position] == "<":
        return _html(text, position, at)
    if text[position] == '"':
        problem = "a quoted text that does not end; expected a closing '\"'"
    elif text.startswith("/*", position):
        problem = "a comment that does not end; expected '*/'"
    else:
        problem = f"got {text[position]!r}, which begins nothing in DOT; quote names that hold it"
    raise ConfigError([Finding(at, f"DOT: {problem}", error=ConfigError)])


def _html(text: str, position: int, at: Location) -> tuple[Token, int]:
    depth = 0
    for end in range(position, len(text)):
        depth += {"<": 1, ">": -1}.get(text[end], 0)
        if depth == 0:
            inner = text[position + 1 : end]
            return Token(TokenKind.HTML, inner, at.line or 0), end + 1 - position
    problem = "DOT: an HTML text that does not end; expected a closing '>'"
    raise ConfigError([Finding(at, problem, error=ConfigError)])
