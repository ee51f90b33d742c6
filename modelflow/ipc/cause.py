"""Errors of units in another process: class names and text cross, but no class does.

Callers look at the cause of an error, as in `isinstance(error.__cause__, ValueError)`, or at the
class name in a table of errors. On the receiving side, the cause is an exception of the same name.
Its base class is the nearest class of Python or modelflow.
"""

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

from modelflow import errors
from modelflow.errors import FlowUnitError


class Cause(NamedTuple):
    """An exception as data.

    Attributes:
        name: The name of the class.
        known: The names of the base classes from Python and modelflow, nearest first.
        text: The message.
        parts: The exceptions of an exception group.
    """

    name: str
    known: tuple[str, ...]
    text: str
    parts: tuple["Cause", ...] = ()

    @classmethod
    def of(cls, raised: BaseException) -> "Cause":
        """Returns the data of an exception."""
        known = (kind.__name__ for kind in type(raised).__mro__ if _is_known(kind.__name__) is kind)
        try:
            text = "".join((str(raised),))  # a plain `str`, not a user's subclass
        except Exception:  # noqa: BLE001 - an error in `__str__` must not hide the cause
            text = ""
        parts = map(cls.of, raised.exceptions) if isinstance(raised, BaseExceptionGroup) else ()
        return cls(type(raised).__name__, tuple(known), text, tuple(parts))

    def exception(self) -> Exception:
        """Returns an exception with the same class name, text and known base class."""
        base = next(filter(None, map(_is_known, self.known)), Exception)
        if base.__name__ == self.name:
            made = _make(base, self.text)
            if made is not None:
                return made
        return _make_named(self.name, base, self.text, [part.exception() for part in self.parts])


def cause_of(error: FlowUnitError) -> Cause | None:
    """Returns the cause of an error as data, or None without a cause."""
    return None if error.__cause__ is None else Cause.of(error.__cause__)


def _is_known(name: str) -> type[Exception] | None:
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _make(kind: type[Exception], text: str) -> Exception | None:
    """Returns an exception with exactly this text, or None if the class does not allow that."""
    try:
        made = kind(text)
    except TypeError:
        return None
    return made if str(made) == text else None


def _make_named(
    name: str, base: type[Exception], text: str, parts: Sequence[Exception]
) -> Exception:
    """Returns an exception of a new class with this name and base class."""
    said: dict[str, Any] = {"__str__": lambda _: text, "__init__": lambda *_: None}
    given = (text, parts) if issubclass(base, ExceptionGroup) else ()
    made: Exception = type(name, (base,), said)(*given)
    return made
