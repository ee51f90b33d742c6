"""The tokens of a DOT text, and the quoting of names and values in DOT."""

import itertools
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple, NoReturn

from modelflow.errors import ConfigError, Finding, Location


class TokenKind(Enum):
    """The kind of a token."""

    ID = "a name"
    QUOTED = "a quoted text"
    HTML = "an HTML text"
    SYMBOL = "a symbol"
    END = "the end of the text"


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: The kind.
        text: The text, without quotes and escapes.
        line: The line, counted from 1.
        start, end: The span in the text, in characters.
    """

    kind: TokenKind
    text: str
    line: int
    start: int
    end: int


# The characters of a name behind the first one. As a list of the others, because Python takes long
# to compile a class with a character beyond U+FFFF.
_MORE = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
_SKIP = re.compile(r"(?:\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)+", re.DOTALL)
# In addition to Graphviz, a name may contain a variable of the environment: ${NAME}.
_TOKEN = re.compile(
    r'"(?P<QUOTED>(?:[^"\\]|\\.)*)"'
    r"|(?P<SYMBOL>->|--|[{}\[\]=;,:+])"
    rf"|(?P<ID>-?(?:\.\d+|\d+(?:\.\d*)?)(?!{_MORE}|\.)"
    rf"|(?:\$\{{\w+\}}|(?![0-9]){_MORE})(?:\$\{{\w+\}}|{_MORE})*)",
    re.DOTALL,
)
# Graphviz reads `20ms` as two words, with a warning.
_NUMBER_AND_NAME = re.compile(rf"-?\.?\d(?:{_MORE}|\.)*")
_KINDS = {kind.name: kind for kind in TokenKind}


class TokenReader:
    """A reader of the tokens of a text, with one token of look-ahead.

    Attributes:
        file: The name of the file, for messages.
        token: The next token.
        symbol: The text of the next token if it is a symbol, else "".
        is_value: Whether the next token can be a name or a value.
        end: The end of the token before the next token.
    """

    def __init__(self, tokens: Iterator[Token], file: str) -> None:
        """Takes the tokens of a text in ``file``."""
        self.file = file
        self.token = Token(TokenKind.END, "", 0, 0, 0)
        self._tokens = tokens
        self.next()

    def next(self) -> None:
        """Advances by one token."""
        self.end = self.token.end
        self.token = token = next(self._tokens)
        self.symbol = token.text if token.kind is TokenKind.SYMBOL else ""
        self.is_value = not self.symbol and token.kind is not TokenKind.END

    def word(self) -> str:
        """Returns the next token in lower case if the token is a name without quotes, else ""."""
        return self.token.text.lower() if self.token.kind is TokenKind.ID else ""

    def accept(self, symbol: str) -> bool:
        """Consumes the next token if the token is ``symbol``; returns whether that was so."""
        if self.symbol == symbol:
            self.next()
            return True
        return False

    def expect(self, symbol: str) -> None:
        """Consumes a symbol.

        Raises:
            ConfigError: The next token is another one.
        """
        if not self.accept(symbol):
            self.fail(f"got {self.describe()}; expected {symbol!r}")

    def value(self, expected: str) -> str:
        """Consumes a name or a value, which may be several quoted texts joined by ``+``.

        Raises:
            ConfigError: The next token is another one; the message names ``expected``.
        """
        token = self.token
        if not self.is_value:
            self.fail(f"got {self.describe()}; expected {expected}")
        self.next()
        text = token.text
        while self.symbol == "+" and token.kind is TokenKind.QUOTED:
            self.next()
            if self.token.kind is not TokenKind.QUOTED:
                self.fail(f"got {self.describe()} behind '+'; expected a quoted text")
            text += self.token.text
            self.next()
        return text

    def describe(self) -> str:
        """Returns the next token as messages name the token."""
        token = self.token
        return token.kind.value if token.kind is TokenKind.END else repr(token.text)

    def fail(self, problem: str) -> NoReturn:
        """Raises an error about the next token."""
        at = Location(self.file, self.token.line)
        raise ConfigError([Finding(at, f"DOT: {problem}", error=ConfigError)])


def tokens_of(text: str, file: str, first_line: int = 1) -> Iterator[Token]:
    """Yields the tokens of ``text``, whose first line is line ``first_line`` of ``file``.

    Raises:
        ConfigError: A character begins no token, or a text or comment does not end.
    """
    position, line = 0, first_line
    while True:
        skipped = _SKIP.match(text, position)
        if skipped:
            line += skipped.group().count("\n")
            position = skipped.end()
        if position >= len(text):
            yield Token(TokenKind.END, "", line, position, position)
            return
        if found := _TOKEN.match(text, position):
            kind = str(found.lastgroup)
            said = found[kind]
            if "\\" in said:
                said = said.replace("\\\n", "").replace("\\\r\n", "").replace('\\"', '"')
            token = Token(_KINDS[kind], said, line, position, found.end())
        elif text[position] == "<":
            token = _html(text, position, file, line)
        else:
            problem = f"DOT: {_problem(text, position)}"
            raise ConfigError([Finding(Location(file, line), problem, error=ConfigError)])
        yield token
        line += text.count("\n", position, token.end)
        position = token.end


def _problem(text: str, position: int) -> str:
    """Returns the message about a character that begins no token."""
    if text[position] == '"':
        problem = "a quoted text that does not end; expected a closing '\"'"
    elif text.startswith("/*", position):
        problem = "a comment that does not end; expected '*/'"
    elif found := _NUMBER_AND_NAME.match(text, position):
        problem = f"got {found.group()}, a number and a name in one; put it in quotes"
    elif text[position] == ">":
        problem = "got '>'; an edge is written '->', and a name with '>' needs quotes"
    elif text[position] == "-":
        problem = "got '-'; an edge is written '->', and a name with '-' needs quotes"
    else:
        problem = f"got {text[position]!r}, which begins nothing in DOT; quote names with it"
    return problem


def _html(text: str, position: int, file: str, line: int) -> Token:
    depth = 0
    for end in range(position, len(text)):
        depth += {"<": 1, ">": -1}.get(text[end], 0)
        if depth == 0:
            inner = text[position + 1 : end]
            return Token(TokenKind.HTML, inner, line, position, end + 1)
    problem = "DOT: an HTML text that does not end; expected a closing '>'"
    raise ConfigError([Finding(Location(file, line), problem, error=ConfigError)])


_PLAIN = re.compile(r"(?:[A-Za-z_]\w*|-?(?:\.\d+|\d+(?:\.\d*)?))\Z", re.ASCII)
_KEYWORDS = ("node", "edge", "graph", "digraph", "subgraph", "strict")


def dot_text(value: Any) -> str:
    """Returns the text of a value as in DOT: lists with commas, booleans as words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def dot_word(text: str, *, in_quotes: bool = False) -> str:
    """Returns a text as one word of DOT.

    Args:
        text: The text of the word.
        in_quotes: Whether to add quotes that are not necessary.

    Raises:
        ConfigError: DOT cannot represent the text.
    """
    if not in_quotes and _PLAIN.match(text) and text.lower() not in _KEYWORDS:
        return text
    # An HTML text can contain a backslash at the end or before a quote, which quotes cannot.
    for written in ('"' + text.replace('"', '\\"') + '"', f"<{text}>"):
        if _reads_as(written, text):
            return written
    raise ConfigError(f"{text!r} cannot be written as DOT; write toml, yaml or json")


def _reads_as(written: str, text: str) -> bool:
    try:
        first, second = itertools.islice(tokens_of(written, ""), 2)
    except (ConfigError, ValueError):
        return False
    return first.text == text and second.kind is TokenKind.END
