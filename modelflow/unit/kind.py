"""The kinds of flow unit, and what the checker and the plan must know of each.

How a kind runs is in its own file under ``modelflow/runtime/kinds/``. A new kind is a class here,
with its line in the table below, such a file, and its line in the table of that folder. Decorated
functions of the kind need a line in ``function_units.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from modelflow.errors import ConfigError, did_you_mean


class Scope(StrEnum):
    """What a unit does to the stream of its input, for those who follow streams through a graph.

    Attributes:
        KEPT: One out for each in, in its place.
        RENUMBERED: A stream of its own in the place of the other, unless the unit keeps the
            numbers.
        BRANCHED: Each output has a part of the stream.
        OPENED: Each buffer becomes a stream inside the other.
        CLOSED: A whole stream becomes one buffer of the one that encloses it.
        LOOPED: What leaves by one output comes back.
    """

    KEPT = "kept"
    RENUMBERED = "renumbered"
    BRANCHED = "branched"
    OPENED = "opened"
    CLOSED = "closed"
    LOOPED = "looped"


class Count(StrEnum):
    """How many buffers a stream unit gives for those that come in.

    Attributes:
        ANY: As many as it likes: they are a stream of their own.
        SAME: One for each one, now or later; it may be joined and merged.
        ASSUMED: Any; the k-th is taken to belong to the k-th that came in, so that it may be joined
            and merged (ModelBox's rule).
    """

    ANY = "any"
    SAME = "same"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a unit is called with, and what it may give; see its subclasses.

    The fields are what units of a kind differ in; all else holds for each unit of the kind.

    Attributes:
        scope: What becomes of the stream.
        batch_size: The default of the node attribute.
        least_outputs: How many outputs a unit has at least.
        is_plain: A call is as good anywhere: on any device, in another process, with rows of any
            session.
        may_keep: A row may stay in the unit until others come.
        may_change_count: A row may become none or many on an output, at once or later.
    """

    scope: ClassVar[Scope] = Scope.KEPT
    batch_size: ClassVar[int] = 1
    least_outputs: ClassVar[int] = 0
    is_plain: ClassVar[bool] = False
    may_keep: ClassVar[bool] = False
    may_change_count: ClassVar[bool] = False

    @property
    def is_per_stream(self) -> bool:
        """Tells whether batches are parted by stream for its calls; see `Normal`."""
        return False

    @property
    def is_batch_retried(self) -> bool:
        """Tells whether the parts of a failing batch are tried again; see `Normal`."""
        return True

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True, slots=True)
class Normal(Kind):
    """One buffer out for each one in, on every output; without outputs, a sink.

    Attributes:
        is_per_stream: The calls each get buffers of one stream only, with that stream's
            ``session`` and ``stream_meta``.
        is_batch_retried: A failing batch is tried again in halves, so that only the guilty
            fail. Set False where a second call would do harm.
    """

    batch_size = 8
    is_plain = True

    is_per_stream: bool = False
    is_batch_retried: bool = True


@dataclass(frozen=True, slots=True)
class Source(Kind):
    """A unit without inputs: it produces until it says that it is done.

    Attributes:
        opens_sessions: Each buffer begins a session of its own: they do not wait for one another,
            and end one by one; see `Context.open_session`. What reaches an output is received from
            the source's session, in the order in which it comes.
    """

    batch_size = 8

    opens_sessions: bool = False


@dataclass(frozen=True, slots=True)
class Stream(Kind):
    """A unit that is called for one stream after the other, in order, and may keep state of it.

    Attributes:
        count: How many buffers it gives.
    """

    scope = Scope.RENUMBERED
    may_keep = True
    may_change_count = True

    count: Count = Count.ANY

    def __post_init__(self) -> None:
        """Checks the count.

        Raises:
            ConfigError: it is no `Count`.
        """
        given: object = self.count
        if not isinstance(given, Count):
            expected = ", ".join(f"Count.{count.name}" for count in Count)
            raise ConfigError(f"Stream: got count={given!r}; expected one of {expected}")


@dataclass(frozen=True, slots=True)
class Condition(Kind):
    """Each buffer leaves by one of several outputs.

    Attributes:
        is_batch_retried: A batch that fails is tried again row by row, where the unit is called
            with batches. Set False where a second call would do harm.
    """

    scope = Scope.BRANCHED
    least_outputs = 1
    may_change_count = True

    is_batch_retried: bool = True


@dataclass(frozen=True, slots=True)
class Expand(Kind):
    """Each buffer becomes a stream."""

    scope = Scope.OPENED
    least_outputs = 1
    may_change_count = True


@dataclass(frozen=True, slots=True)
class Collapse(Kind):
    """Each stream becomes a buffer."""

    scope = Scope.CLOSED


@dataclass(frozen=True, slots=True)
class Loop(Kind):
    """Each buffer leaves, or goes round again."""

    scope = Scope.LOOPED
    least_outputs = 2


_KINDS: Mapping[str, Kind] = {
    str(kind): kind
    for kind in (Normal(), Condition(), Expand(), Collapse(), Loop(), Stream(), Source())
}


KIND_TYPES = tuple(type(kind) for kind in _KINDS.values())
"""The classes of which a kind is one."""


def kind_of(given: object) -> Kind:
    """Returns the kind that is given, or that a text names (``"stream"``), with its defaults.

    Raises:
        ConfigError: there is none such.
    """
    if isinstance(given, KIND_TYPES):
        return given
    name = given if isinstance(given, str) else ""
    if name not in _KINDS:
        expected = f"expected one of {', '.join(_KINDS)}, or a value such as Normal()"
        raise ConfigError(f"got kind={given!r}; {expected}{did_you_mean(name, _KINDS)}")
    return _KINDS[name]
