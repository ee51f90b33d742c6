"""The kinds of flow unit, and what the checker and the plan must know of each.

How a kind runs is in its own file under ``modelflow/runtime/kinds/``. A new kind is a name and a
row of `Traits` here, such a file, and its line in the table of that folder.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Scope(StrEnum):
    """What a unit does to the stream of its input, for those who follow streams through a graph."""

    KEPT = "kept"
    """One out for each in, in its place."""
    RENUMBERED = "renumbered"
    """A stream of its own in the place of the other, unless the unit keeps the numbers."""
    BRANCHED = "branched"
    """Each output has a part of the stream."""
    OPENED = "opened"
    """Each buffer becomes a stream inside the other."""
    CLOSED = "closed"
    """A whole stream becomes one buffer of the one that encloses it."""
    LOOPED = "looped"
    """What leaves by one output comes back."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What holds for every unit of a kind."""

    scope: Scope
    """What becomes of the stream."""
    batch_size: int = 1
    """The default of the node attribute."""
    least_outputs: int = 0
    """How many outputs a unit has at least."""
    is_plain: bool = False
    """A call is as good anywhere: on any device, in another process, with rows of any session."""
    may_keep: bool = False
    """A row may stay in the unit until others come."""
    may_change_count: bool = False
    """A row may become none or many on an output, at once or later."""


class Kind(StrEnum):
    """The six kinds of flow unit (``docs/reference/units.md`` says what each guarantees)."""

    NORMAL = "normal"
    STREAM = "stream"
    CONDITION = "condition"
    EXPAND = "expand"
    COLLAPSE = "collapse"
    LOOP = "loop"

    @property
    def traits(self) -> Traits:
        """What holds for every unit of this kind."""
        return _TRAITS[self]


_TRAITS = MappingProxyType(
    {
        Kind.NORMAL: Traits(Scope.KEPT, batch_size=8, is_plain=True),
        Kind.STREAM: Traits(Scope.RENUMBERED, may_keep=True, may_change_count=True),
        Kind.CONDITION: Traits(Scope.BRANCHED, least_outputs=1, may_change_count=True),
        Kind.EXPAND: Traits(Scope.OPENED, least_outputs=1, may_change_count=True),
        Kind.COLLAPSE: Traits(Scope.CLOSED),
        Kind.LOOP: Traits(Scope.LOOPED, least_outputs=2),
    }
)
