"""The data in a drawn graph, in the interpreter's terms: rows and ends, in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.buffer import Buffer

# Values are below this; loops count their rounds in the digits above.
LOW = 9973
DIGIT = 10**4

LATE = "its deadline passed before the unit was called"


class UnitError(ValueError):
    """The exception of the units of these graphs."""


@dataclass(frozen=True)
class Bad:
    """An error with the name of its node, and its text."""

    node: str
    text: str


@dataclass(frozen=True)
class Row:
    """A buffer at its place; ``is_late`` means that its deadline had passed before the send."""

    stream: tuple[Any, ...]
    position: int
    value: object
    meta: Mapping[str, Any] = field(default_factory=dict)
    is_late: bool = False

    @property
    def is_bad(self):
        return isinstance(self.value, Bad)

    def at(self, node):
        """Returns the input of ``node``: an error if the row is late."""
        return replace(self, value=Bad(node, LATE)) if self.is_late and not self.is_bad else self

    def become(self, node, function):
        """Returns the row with ``function`` of its value, or with the raised error."""
        try:
            return replace(self, value=function(self.value))
        except UnitError as error:
            return replace(self, value=Bad(node, str(error)))


@dataclass(frozen=True)
class End:
    stream: tuple[Any, ...]


@dataclass
class Expected:
    """The results of a session: values per output and per sink, and the count of errors."""

    outputs: dict[str, Any] = field(default_factory=dict)
    sinks: dict[str, Any] = field(default_factory=dict)
    errors: int = 0


def low(value):
    return value % LOW if value < DIGIT else (value % DIGIT) % LOW


def kept(value, new):
    """Returns ``new`` with the loops' digits of ``value``."""
    return value - value % DIGIT + new % LOW


def fails_on(value, fails):
    """Raises `UnitError` for some values: never with ``fails`` 0, else where value % fails == 1."""
    if fails and low(value) % fails == 1:
        text = f"fails on {low(value)}"
        raise UnitError(text)


def depth_of(stream):
    return 0 if not stream else 1 + depth_of(stream[0])


def plain(buffer: Buffer):
    """Returns a result buffer in the interpreter's terms."""
    if buffer.error is None:
        return buffer.data, buffer.meta
    error = buffer.error
    if error.__cause__ is None:  # an error from another process has only its text
        return Bad(error.node, error.message.partition(": ")[2])
    return Bad(error.node, str(error.__cause__))


def plain_row(row):
    """Returns the same form of a row."""
    return row.value if row.is_bad else (row.value, dict(row.meta))
