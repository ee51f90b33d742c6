"""The kinds of flow unit, with the facts about each that the checker and the plan need.

The code that runs a kind is in its own file under ``modelflow/runtime/kinds/``. A new kind is a
class here, with its line in the table below. It also needs a file in that folder, and its line in
the table of that folder. Decorated functions of the kind need a line in ``function_units.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from modelflow.errors import ConfigError, did_you_mean


class Scope(StrEnum):
    """The effect of a unit on the stream of its input, for code that follows streams.

    Attributes:
        KEPT: One output buffer for each input buffer, at the same position.
        RENUMBERED: A new stream in place of the input stream, unless the unit keeps the numbers.
        BRANCHED: Each output has a part of the stream.
        OPENED: Each buffer becomes a stream inside the input stream.
        CLOSED: A whole stream becomes one buffer of the enclosing stream.
        LOOPED: The buffers of one output come back.
    """

    KEPT = "kept"
    RENUMBERED = "renumbered"
    BRANCHED = "branched"
    OPENED = "opened"
    CLOSED = "closed"
    LOOPED = "looped"


class Count(StrEnum):
    """The number of buffers that a stream unit gives for its input buffers.

    Attributes:
        ANY: Any number: the output is a stream of its own.
        SAME: One for each input buffer, now or later; the output may be joined and merged.
        ASSUMED: Any number. The k-th output counts as the k-th input, so the output may be joined
            and merged (ModelBox's rule).
    """

    ANY = "any"
    SAME = "same"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Kind:
    """The base class of kinds: the form of a unit's calls, and of its outputs.

    The fields differ between units of a kind. The class variables are the same for all of them.

    Attributes:
        scope: The effect on the stream.
        batch_size: The default of the node attribute.
        least_outputs: The minimum number of outputs.
        is_plain: Whether a call may run anywhere: on any device, in another process, with rows of
            any session.
        may_keep: Whether a row may stay in the unit until other rows come.
        may_change_count: Whether a row may become none or many on an output, at once or later.
    """

    scope: ClassVar[Scope] = Scope.KEPT
    batch_size: ClassVar[int] = 1
    least_outputs: ClassVar[int] = 0
    is_plain: ClassVar[bool] = False
    may_keep: ClassVar[bool] = False
    may_change_count: ClassVar[bool] = False

    @property
    def is_per_stream(self) -> bool:
        """Tells whether batches are split by stream for the calls; see `Normal`."""
        return False

    @property
    def is_batch_retried(self) -> bool:
        """Tells whether the parts of a failing batch are tried again; see `Normal`."""
        return True

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True, slots=True)
class Normal(Kind):
    """One output buffer for each input buffer, on every output; without outputs, a sink.

    Attributes:
        is_per_stream: Whether each call gets buffers of one stream only, with that stream's
            ``session`` and ``stream_meta``.
        is_batch_retried: Whether a failing batch is tried again in halves, to fail only the rows
            with the error. Set False if a second call would do harm.
    """

    batch_size = 8
    is_plain = True

    is_per_stream: bool = False
    is_batch_retried: bool = True


@dataclass(frozen=True, slots=True)
class Source(Kind):
    """A unit without inputs, which produces buffers until its own end.

    Attributes:
        opens_sessions: Whether each buffer starts a session of its own. Such sessions do not wait
            for one another, and end separately; see `Context.open_session`. Their results are
            received from the source's session, in the order of arrival.
    """

    batch_size = 8

    opens_sessions: bool = False


@dataclass(frozen=True, slots=True)
class Stream(Kind):
    """A unit that is called for each stream in order, and may keep state of the stream.

    Attributes:
        count: The number of output buffers.
    """

    scope = Scope.RENUMBERED
    may_keep = True
    may_change_count = True

    count: Count = Count.ANY

    def __post_init__(self) -> None:
        """Checks the count.

        Raises:
            ConfigError: The count is no `Count`.
        """
        given: object = self.count
        if not isinstance(given, Count):
            expected = ", ".join(f"Count.{count.name}" for count in Count)
            raise ConfigError(f"Stream: got count={given!r}; expected one of {expected}")


@dataclass(frozen=True, slots=True)
class Condition(Kind):
    """A unit with several outputs, which sends each buffer to a single output.

    Attributes:
        is_batch_retried: Whether a failing batch is tried again row by row, if the unit is called
            with batches. Set False if a second call would do harm.
    """

    scope = Scope.BRANCHED
    least_outputs = 1
    may_change_count = True

    is_batch_retried: bool = True


@dataclass(frozen=True, slots=True)
class Expand(Kind):
    """A unit that makes a stream from each buffer."""

    scope = Scope.OPENED
    least_outputs = 1
    may_change_count = True


@dataclass(frozen=True, slots=True)
class Collapse(Kind):
    """A unit that makes a buffer from each stream."""

    scope = Scope.CLOSED


@dataclass(frozen=True, slots=True)
class Loop(Kind):
    """A unit that sends each buffer out, or around the loop again."""

    scope = Scope.LOOPED
    least_outputs = 2


_KINDS: Mapping[str, Kind] = {
    str(kind): kind
    for kind in (Normal(), Condition(), Expand(), Collapse(), Loop(), Stream(), Source())
}


KIND_TYPES = tuple(type(kind) for kind in _KINDS.values())
"""The classes of kinds."""


def kind_of(given: object) -> Kind:
    """Returns the given kind, or the kind with the given name (``"stream"``) and its defaults.

    Raises:
        ConfigError: The kind does not exist.
    """
    if isinstance(given, KIND_TYPES):
        return given
    name = given if isinstance(given, str) else ""
    if name not in _KINDS:
        expected = f"expected one of {', '.join(_KINDS)}, or a value such as Normal()"
        raise ConfigError(f"got kind={given!r}; {expected}{did_you_mean(name, _KINDS)}")
    return _KINDS[name]
