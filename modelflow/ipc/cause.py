"""What a unit has raised, as it crosses: the names of its class and what it says, no class.

Whoever catches an error looks at its cause: `isinstance(error.__cause__, ValueError)`, the name of
the class in a table of errors. In front it is an exception of the same name, below the nearest
class that is Python's or modelflow's.
"""

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

from modelflow import errors
from modelflow.errors import FlowUnitError


class Cause(NamedTuple):
    """An exception as data.

    Attributes:
        name: Of its class.
        known: Of the classes that it is an instance of, those of Python and modelflow, the nearest
            first.
        text: What it says.
        parts: Of a group of exceptions: those in it.
    """

    name: str
    known: tuple[str, ...]
    text: str
    parts: tuple["Cause", ...] = ()

    @classmethod
    def of(cls, raised: BaseException) -> "Cause":
        """Returns an exception as it crosses."""
        known = (kind.__name__ for kind in type(raised).__mro__ if _is_known(kind.__name__) is kind)
        try:
            text = "".join((str(raised),))  # and of no class of a user's
        except Exception:  # noqa: BLE001 - what it raises is nobody's answer
            text = ""
        parts = map(cls.of, raised.exceptions) if isinstance(raised, BaseExceptionGroup) else ()
        return cls(type(raised).__name__, tuple(known), text, tuple(parts))

    def exception(self) -> Exception:
        """Returns an exception that is and says the same, as far as classes are known here."""
        base = next(filter(None, map(_is_known, self.known)), Exception)
        if base.__name__ == self.name:
            made = _make(base, self.text)
            if made is not None:
                return made
        return _make_named(self.name, base, self.text, [part.exception() for part in self.parts])


def cause_of(error: FlowUnitError) -> Cause | None:
    """Returns the cause of an error; None: it has none."""
    return None if error.__cause__ is None else Cause.of(error.__cause__)


def _is_known(name: str) -> type[Exception] | None:
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _make(kind: type[Exception], text: str) -> Exception | None:
    """Returns an exception that says a text; None: its class takes something else, or says more."""
    try:
        made = kind(text)
    except TypeError:
        return None
    return made if str(made) == text else None


def _make_named(
    name: str, base: type[Exception], text: str, parts: Sequence[Exception]
) -> Exception:
    """Returns an exception of a class that is made for it."""
    said: dict[str, Any] = {"__str__": lambda _: text, "__init__": lambda *_: None}
    given = (text, parts) if issubclass(base, ExceptionGroup) else ()
    made: Exception = type(name, (base,), said)(*given)
    return made
