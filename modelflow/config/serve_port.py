"""What ``[serve]`` says: of a graph's ends, and of how it is served."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelflow.errors import Location

__all__ = ["ServeConfig", "ServePort"]


@dataclass(frozen=True, slots=True)
class ServePort:
    """What a graph file says of one input or output, for those who call the graph from outside."""

    datatype: str | None = None
    """The element type, as the Open Inference Protocol calls it (``FP32``); None: not said."""
    shape: tuple[int | None, ...] | None = None
    """The shape of one buffer, None for an axis that is free; None as a whole: not said."""
    batched: bool = True
    """A request's array is cut along axis 0, a buffer a row; else it is one buffer as a whole."""
    labels: tuple[str, ...] = ()
    """The names of the classes, for outputs whose last axis is one of scores."""
    location: Location = field(default_factory=lambda: Location("<code>"), compare=False)
    """Where it stands."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The section ``[serve]``."""

    input: Mapping[str, ServePort] = field(default_factory=dict)
    """By the name of the graph's input."""
    output: Mapping[str, ServePort] = field(default_factory=dict)
    """By the name of the graph's output."""
    is_isolated: bool = False
    """``modelflow serve`` gives it a process of its own."""
