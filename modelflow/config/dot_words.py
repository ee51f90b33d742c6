"""How a name or a value is written in DOT."""

import itertools
import re
from typing import Any

from modelflow.config.dot_tokens import TokenKind, tokens_of
from modelflow.errors import ConfigError

__all__ = ["dot_text", "dot_word"]

_PLAIN = re.compile(r"(?:[A-Za-z_]\w*|-?(?:\.\d+|\d+(?:\.\d*)?))\Z", re.ASCII)
_KEYWORDS = ("node", "edge", "graph", "digraph", "subgraph", "strict")


def dot_text(value: Any) -> str:
    """Returns a value as the text that DOT gives for it: lists with commas, booleans in words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def dot_word(text: str, *, in_quotes: bool = False) -> str:
    """Returns a text as one word of DOT.

    Args:
        text: What the word is to say.
        in_quotes: Quotes it also where it needs none.

    Raises:
        ConfigError: DOT cannot hold it.
    """
    if not in_quotes and _PLAIN.match(text) and text.lower() not in _KEYWORDS:
        return text
    # What quotes cannot hold (a backslash at the end, or before a quote) an HTML text may.
    for written in ('"' + text.replace('"', '\\"') + '"', f"<{text}>"):
        if _reads_as(written, text):
            return written
    message = f"{text!r} cannot be written as DOT; write toml, yaml or json"
    raise ConfigError(message)


def _reads_as(written: str, text: str) -> bool:
    try:
        first, second = itertools.islice(tokens_of(written, ""), 2)
    except (ConfigError, ValueError):
        return False
    return first.text == text and second.kind is TokenKind.END
