"""``${NAME}`` in the texts of a graph file, and values masked for messages."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from modelflow.errors import did_you_mean

# A value of such a name is not told.
_SECRET = re.compile(
    r"passw(or)?d|passphrase|(?<![a-z])pass\Z|pwd|secret|token|credential|authorization|key\Z",
    re.IGNORECASE,
)
# The password in a URL: everything up to the last @ before the path.
_OF_URL = re.compile(r"(://[^/\s:@]*):[^/\s]*@")
_MASK = "***"
_LONGEST = 200


def is_secret(name: str) -> bool:
    """Tells whether what has such a name is not for all to see."""
    return _SECRET.search(name) is not None


def mask_value(name: str, value: str) -> str:
    """Returns a value without what is not for all to see; nothing else of it changes."""
    return _MASK if is_secret(name) else _OF_URL.sub(rf"\1:{_MASK}@", value)


def format_setting(name: str, value: str) -> str:
    """Returns ``NAME=VALUE`` on one line, a long value cut."""
    text = mask_value(name, value)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} letters)"
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in f"{name}={cut}"
    )


_VARIABLE = re.compile(r"(\\?)\$\{(\w+)\}")

Path = tuple[str | int, ...]
# Told of a variable that is not there: the way to the text, and the sentence.
Report = Callable[[Path, str], None]
# A value of the environment that is so long stands for itself in a message: it may be a password.
_TELLING = 6


def expand_variables(
    value: Any,
    report: Report,
    used: dict[str, str],
    path: Path = (),
    keep: frozenset[Path] = frozenset(),
) -> Any:
    r"""Returns ``value`` with ``${NAME}`` replaced in every text.

    Args:
        value: Texts in mappings and lists, in any depth.
        report: Called for each variable that the environment does not have; its text stays.
        used: Gets, for each text and variable that was replaced, what it was: for `mask`.
        path: The way to ``value``.
        keep: Ways to what is left as it stands.
    """
    if path in keep:
        return value
    if isinstance(value, str):
        if "${" not in value:
            return value
        text = _VARIABLE.sub(lambda found: _variable(found, report, used, path), value)
        used[text] = value
        return text
    if isinstance(value, Mapping):
        return {
            key: expand_variables(item, report, used, (*path, str(key)), keep)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            expand_variables(item, report, used, (*path, place), keep)
            for place, item in enumerate(value)
        ]
    return value


def mask(message: str, used: Mapping[str, str]) -> str:
    """Returns a message in which no value of the environment stands, but ``${NAME}``.

    Args:
        message: About a graph file.
        used: What `expand_variables` has replaced.
    """
    for text, before in sorted(used.items(), key=lambda pair: len(pair[0]), reverse=True):
        message = message.replace(repr(text), repr(before))
        if len(text) >= _TELLING:
            message = message.replace(repr(text)[1:-1], before).replace(text, before)
    return message


class _AsWritten(str):
    """A text in which ``${NAME}`` stands for its variable."""

    __slots__ = ()


def unexpand(value: Any, used: Mapping[str, str]) -> Any:
    """Returns a value with its texts as they were written, where they may hold a secret.

    Args:
        value: Texts in mappings and lists, in any depth.
        used: What `expand_variables` has replaced.
    """

    def restore(text: str) -> str:
        before = used.get(text) if len(text) >= _TELLING else None
        return text if before is None else _AsWritten(before)

    return change_texts(value, restore)


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a value with each text in it changed, in mappings and lists in any depth."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {str(key): change_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [change_texts(item, change) for item in value]
    return value


def escape(text: str) -> str:
    r"""Returns ``text`` so that `expand_variables` gives it back: ``\${`` for every variable in it.

    What `unexpand` has brought back stays as it is.
    """
    if isinstance(text, _AsWritten):
        return str(text)
    return _VARIABLE.sub(r"\1\\${\2}", str(text))


def _variable(found: re.Match[str], report: Report, used: dict[str, str], path: Path) -> str:
    if found[1]:
        return found[0][1:]
    value = os.environ.get(found[2])
    if value is None:
        near = did_you_mean(found[2], os.environ)
        message = f"${{{found[2]}}}: the environment has no such variable{near}"
        report(path, f"{message}; set it, or write \\${{{found[2]}}} for the text")
        return found[0]
    used[value] = found[0]
    return value
