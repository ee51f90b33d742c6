"""Replaces ``${NAME}`` in the texts of a graph file, and masks values for messages."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from modelflow.errors import did_you_mean

# The value of a setting with such a name is masked.
_SECRET = re.compile(
    r"passw(or)?d|passphrase|(?<![a-z])pass\Z|pwd|secret|token|credential|authorization|key\Z",
    re.IGNORECASE,
)
# The password in a URL: all characters up to the last @ before the path.
_OF_URL = re.compile(r"(://[^/\s:@]*):[^/\s]*@")
_MASK = "***"
_LONGEST = 200


def is_secret(name: str) -> bool:
    """Tells whether a setting with this name may be a secret."""
    return _SECRET.search(name) is not None


def mask_value(name: str, value: str) -> str:
    """Returns a value with secrets masked; the rest of the value is unchanged."""
    return _MASK if is_secret(name) else _OF_URL.sub(rf"\1:{_MASK}@", value)


def format_setting(name: str, value: str) -> str:
    """Returns ``NAME=VALUE`` on one line, with a long value cut."""
    text = mask_value(name, value)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} letters)"
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in f"{name}={cut}"
    )


_VARIABLE = re.compile(r"(\\?)\$\{(\w+)\}")

Path = tuple[str | int, ...]
# Called for a variable that is not set, with the path of the text and the message.
Report = Callable[[Path, str], None]
# Values of this length or more are masked wherever a message contains them: they may be passwords.
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
        value: Texts in mappings and lists, at any depth.
        report: Called for each variable that is not set; its text stays.
        used: Receives the original of each replaced text and variable, for `mask`.
        path: The path of ``value``.
        keep: Paths of values that stay unchanged.
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
    """Returns a message with ``${NAME}`` in place of values of the environment.

    Args:
        message: A message about a graph file.
        used: The replacements of `expand_variables`.
    """
    for text, before in sorted(used.items(), key=lambda pair: len(pair[0]), reverse=True):
        message = message.replace(repr(text), repr(before))
        if len(text) >= _TELLING:
            message = message.replace(repr(text)[1:-1], before).replace(text, before)
    return message


class _AsWritten(str):
    """A text in which ``${NAME}`` is a variable."""

    __slots__ = ()


def unexpand(value: Any, used: Mapping[str, str]) -> Any:
    """Returns a value with texts as they were written, if they may contain a secret.

    Args:
        value: Texts in mappings and lists, at any depth.
        used: The replacements of `expand_variables`.
    """

    def restore(text: str) -> str:
        before = used.get(text) if len(text) >= _TELLING else None
        return text if before is None else _AsWritten(before)

    return change_texts(value, restore)


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a value with ``change`` applied to each text, in mappings and lists at any depth."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {str(key): change_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [change_texts(item, change) for item in value]
    return value


def escape(text: str) -> str:
    r"""Returns ``text`` with ``\${`` for each variable, to pass unchanged through
    `expand_variables`.

    A text that `unexpand` has restored stays unchanged.
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
