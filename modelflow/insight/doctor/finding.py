"""What the doctor has found: a cause, where, on what evidence, and what would help."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Cause(StrEnum):
    """The kinds of trouble that are told apart."""

    ERRORS = "errors"
    """Many rows fail in the node."""
    UNREAD_RESULTS = "unread results"
    """Nobody takes what an output of the graph has; whoever sends waits for that."""
    INTERPRETER_LOCK = "interpreter lock"
    """Its threads compute in Python, and so wait for one another."""
    FOREIGN_LOAD = "foreign load"
    """Other programs had the processors that it wanted."""
    OVERSUBSCRIPTION = "oversubscription"
    """It has more threads that compute than there are processors."""
    QUEUE_BOUNDS_BATCH = "queue bounds the batch"
    """Its queue holds fewer rows than a batch may have."""
    BATCH_TIMEOUT = "batch timeout"
    """Its rows wait for others that do not come."""
    PADDING = "padding"
    """Its batches are filled up with rows that nobody wants."""
    COPIES = "copies"
    """Its rows are copied between devices for much of the time."""
    STRAGGLERS = "stragglers"
    """A few slow calls hold up what came after them, because the order is kept."""
    SMALL_BATCH = "small batch"
    """Larger batches would cost less a row."""
    CAPACITY = "capacity"
    """Its threads are always at work, and more of them would help."""
    PROCESSORS = "processors"
    """Every processor is used."""
    SLOW_INPUT = "slow input"
    """All nodes wait for what comes in."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        node: Where: a node, an input or an output of the graph.
        cause: The kind of trouble.
        sentence: What it is, for people.
        evidence: The figures that say so, a sentence each.
        change: ``NODE.ATTRIBUTE`` -> value, as ``--set`` takes it; empty: no attribute helps.
        advice: What else would help, for people.
        gain: How much higher the rate will be with the change, as a share of what it is; None:
            nobody knows, or it is not the rate that gains.
        then: What limits next.
    """

    node: str
    cause: Cause
    sentence: str
    evidence: tuple[str, ...] = ()
    change: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""
    gain: float | None = None
    then: str = ""
