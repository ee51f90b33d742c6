"""A finding of the doctor: the cause, the node, the evidence and the suggested change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Cause(StrEnum):
    """The causes that the doctor distinguishes."""

    ERRORS = "errors"
    """Many rows fail in the node."""
    UNREAD_RESULTS = "unread results"
    """The results of a graph output are not read, and the sender waits for that."""
    INTERPRETER_LOCK = "interpreter lock"
    """The threads compute in Python, and wait for each other at the interpreter lock."""
    FOREIGN_LOAD = "foreign load"
    """Other programs used the processors that the node needed."""
    OVERSUBSCRIPTION = "oversubscription"
    """The node has more computing threads than the machine has processors."""
    QUEUE_BOUNDS_BATCH = "queue bounds the batch"
    """The queue holds fewer rows than a batch may have."""
    BATCH_TIMEOUT = "batch timeout"
    """The rows wait for a fuller batch until the time-out, without success."""
    PADDING = "padding"
    """Many rows of the batches are padding."""
    COPIES = "copies"
    """The node spends much of its time on copies of rows between devices."""
    STRAGGLERS = "stragglers"
    """Later rows wait for a few slow calls, because rows keep their order."""
    SMALL_BATCH = "small batch"
    """Larger batches would take less time per row."""
    SMALL_QUEUE = "small queue"
    """The node waits for rows, and the node before waits for room: the queue is too short."""
    IN_FLIGHT = "rows in flight"
    """``max_in_flight`` rows are inside the graph, and no node has enough to do."""
    LOOP_BOUND = "loop bound"
    """A loop is full, and no node has enough to do."""
    UNEVEN_SHAPES = "uneven shapes"
    """Rows of different shapes cut the batches of a model."""
    TRANSFER = "transfer"
    """The transfer of rows to the node's process and back takes longer than its work."""
    GARBAGE_COLLECTION = "garbage collection"
    """Python's garbage collector stops all threads for much of the time."""
    ONE_AT_A_TIME = "one at a time"
    """Calls wait for a device, a lock or a connection that serves one call at a time."""
    ONE_STREAM = "one stream"
    """The rows of a stream pass in order, and fewer streams than threads are under way."""
    FRONT_END = "front end"
    """The HTTP thread of a server has no time left."""
    CAPACITY = "capacity"
    """The threads are always at work, and more threads would help."""
    PROCESSORS = "processors"
    """Every processor is in use."""
    SLOW_INPUT = "slow input"
    """All nodes wait for input."""


class Confidence(StrEnum):
    """The certainty of a finding."""

    HIGH = "high"
    """Counted exactly, or measured by an experiment."""
    MEDIUM = "medium"
    """The figures show this cause, and nothing else is known to have this effect."""
    LOW = "low"
    """Another cause would show the same figures."""


def format_changes(changes: Mapping[str, Any]) -> str:
    """Returns changes as options of a command: ``--set a.threads=2 --set a.batch_size=8``."""
    return " ".join(f"--set {key}={value}" for key, value in changes.items())


@dataclass(frozen=True)
class Finding:
    """A problem of a flow.

    Attributes:
        node: The name of a node, or of an input or output of the graph.
        cause: The kind of problem.
        sentence: The problem in words.
        evidence: The measured values that show the problem, one sentence each.
        change: ``NODE.ATTRIBUTE`` -> value, as for ``--set``. Empty if no attribute helps.
        advice: Other remedies, in words.
        gain: The expected growth of the rate with the change, as a share of the rate now. None if
            it is unknown, or if the change improves something other than the rate.
        then: The next limit of the rate after the change.
        is_measured: Whether an experiment has measured `gain`.
        is_least: Whether a stronger change may gain more.
        confidence: The certainty of the cause.
        second: The next probable cause, and the experiment that would tell them apart; or ``""``.
    """

    node: str
    cause: Cause
    sentence: str
    evidence: tuple[str, ...] = ()
    change: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""
    gain: float | None = None
    then: str = ""
    is_measured: bool = False
    is_least: bool = False
    confidence: Confidence = Confidence.MEDIUM
    second: str = ""

    @property
    def headline(self) -> str:
        """The node, the cause and the problem in a line."""
        return f"{self.node}: {self.cause}: {self.sentence}"
