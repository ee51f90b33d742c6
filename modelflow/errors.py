"""Every exception that modelflow raises.

::

    ModelflowError
    ├── ConfigError                 text of a graph or unit file: file, line, key
    │   └── OptionsError            options that a unit does not take
    ├── GraphError                  names and edges; holds all findings of one check
    │   ├── UnknownFlowUnitError
    │   ├── PortError
    │   ├── CycleError
    │   ├── DisabledGraphError
    │   └── StreamMismatchError
    ├── PlanError                   what this machine or version cannot run
    │   └── DeviceUnavailableError
    ├── FlowUnitError               raised inside a flow unit: node, unit, phase, session
    ├── WorkerProcessError          the process of a unit has ended in the middle of its work
    ├── NoReplicaError              nothing was there to work on what a graph places elsewhere
    ├── ReplicaLostError            what worked on it there has ended, or hangs
    ├── EngineError                 a model file that does not load, or does not fit its ports
    │   └── ItemRefusedError        (also a BadRequest) an item that the model does not take
    ├── StreamError                 the life of a session
    │   ├── EndOfStream
    │   ├── StreamClosed
    │   ├── QueueFullError
    │   ├── DeadlineExceeded        (also a TimeoutError)
    │   └── Cancelled
    └── MissingDependencyError      (also an ImportError) with the pip command
    FlowFailed                      (an ExceptionGroup) the flow itself failed

A time-out that the caller asked for is Python's own ``TimeoutError``.
"""

import contextlib
import difflib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

_RENAMED = {"described": "describe_error", "told": "format_error"}

__all__ = [
    "ArgumentError",
    "BadRequest",
    "Cancelled",
    "ConfigError",
    "CycleError",
    "DeadlineExceeded",
    "DeviceUnavailableError",
    "DisabledGraphError",
    "EndFlow",
    "EndOfStream",
    "EngineError",
    "Finding",
    "FlowFailed",
    "FlowUnitError",
    "GraphError",
    "ItemRefusedError",
    "Location",
    "MissingDependencyError",
    "ModelflowError",
    "NoReplicaError",
    "OptionsError",
    "PlanError",
    "PortError",
    "QueueFullError",
    "RecordingError",
    "ReplicaLostError",
    "StreamClosed",
    "StreamError",
    "StreamMismatchError",
    "TuningError",
    "UnknownFlowUnitError",
    "WorkerProcessError",
    "describe_error",
    "did_you_mean",
    "format_error",
    "text_of",
]


@dataclass(frozen=True, slots=True)
class Location:
    """Where something was written: a file (or ``<text>``) and a line counted from 1.

    ``line`` is None where a format gives none (a mapping, a graph built in code).
    """

    file: str = "<text>"
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a graph, as one line of text.

    Attributes:
        location: Where it is written.
        message: What was found, and what was expected.
        node: Whose it is; None: the graph's.
        error: The class that tells the kind of mistake (a subclass of `ModelflowError`).
        port: The port of the node that it is about; None: none, or several.
    """

    location: Location
    message: str
    node: str | None = None
    error: "type[ModelflowError] | None" = None
    port: str | None = None

    def hiding(self, mask: Callable[[str], str]) -> "Finding":
        """Returns this finding with its message through ``mask``, which hides secrets."""
        return replace(self, message=mask(self.message))

    def __str__(self) -> str:
        node = f"node {self.node!r}: " if self.node is not None else ""
        return f"{self.location}: {node}{self.message}"


def text_of(findings: Iterable[Finding]) -> str:
    """Returns a line for each finding; nodes of which the same is said have one line together."""
    same: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        alone = number if finding.node is None else None
        same.setdefault((finding.location.file, finding.message, alone), []).append(finding)
    lines = []
    for first, *others in same.values():
        nodes = dict.fromkeys(
            f"{one.node!r} (line {one.location.line})" if one.location.line else repr(one.node)
            for one in others
            if one.node != first.node
        )
        lines.append(f"{first}; so it is with {', '.join(nodes)}" if nodes else str(first))
    return "\n".join(lines)


def below_here(path: str) -> str:
    """Returns a path as seen from the working folder, if it is below that."""
    seen = os.path.relpath(path)
    return path if seen.startswith(os.pardir) else seen


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the known name nearest to ``name``, else ``""``."""
    near = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


# Causes that the text of several errors names.
_MOST_CAUSES = 10


def absence_hint(path: Path) -> str:
    """Returns what to say of a file that is not there: one of nearly its name, how it is made."""
    readme, folder = path.parent / "README.md", path.parent
    near = did_you_mean(path.name, os.listdir(folder)) if folder.is_dir() else ""
    return near + (f"; {readme} says how to make it" if readme.is_file() else "")


def format_error(error: Exception) -> str:
    """Returns what an error says: our own, and time-outs, speak for themselves."""
    return str(error) if isinstance(error, ModelflowError | TimeoutError) else describe_error(error)


def describe_error(error: BaseException) -> str:
    """Returns the class of an exception and what it says, as in ``ValueError: too wide``.

    The class alone where it says nothing, or cannot: an exception comes from anybody's code.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - what it raises is nobody's answer
        return name
    return f"{name}: {text}" if text else name


class ModelflowError(Exception):
    """The root of every error of modelflow."""


class _FindingsError(ModelflowError):
    """An error that lists everything that one reading or one check found."""

    def __init__(self, findings: Sequence[Finding] | str) -> None:
        self.findings: tuple[Finding, ...] = () if isinstance(findings, str) else tuple(findings)
        super().__init__(findings if isinstance(findings, str) else text_of(self.findings))


class ConfigError(_FindingsError):
    """A graph or unit file that cannot be read; ``findings`` holds every mistake in it."""


class OptionsError(ConfigError):
    """Options that a unit does not take.

    Attributes:
        problems: A sentence for each of them.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class ArgumentError(ConfigError):
    """An argument that contradicts the graph or another argument."""


class GraphError(_FindingsError):
    """A graph that cannot run; ``findings`` holds every mistake of one check, in file order.

    Of more than a hundred it holds the first, and behind them one that says so.
    """


class UnknownFlowUnitError(GraphError):
    """A node names a flow unit that no registry knows."""


class PortError(GraphError):
    """A port that does not exist, is not connected, or is fed twice."""


class CycleError(GraphError):
    """A cycle that passes no loop unit."""


class StreamMismatchError(GraphError):
    """A node joins streams that do not stem from the same origin, or are of different depth."""


class DisabledGraphError(GraphError):
    """The graph says that it is not to be run: ``[flow] enable=false``."""


class PlanError(ModelflowError):
    """The graph is right, but this machine or this version cannot run it."""


class DeviceUnavailableError(PlanError):
    """A device that is not on this machine; the message says which ones are.

    Attributes:
        findings: Each node that names one, where a graph was checked.
    """

    findings: tuple[Finding, ...] = ()


@functools.cache
def _packages() -> tuple[str, ...]:
    """The folders of modelflow and of everything that is installed."""
    import sysconfig

    named = sysconfig.get_paths()
    own = os.path.dirname(os.path.abspath(__file__))
    units = os.path.join(os.path.dirname(own), "flowunits")  # in a source checkout
    found = {own, units, *(named[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))}
    return tuple(os.path.join(path, "") for path in found)


def is_users(file: str) -> bool:
    """Tells whether a file of Python code is the user's own: of no package, and a file at all."""
    return not file.startswith(("<", *_packages()))


def find_line(error: BaseException | None) -> str:
    """Returns the line of the user's own code that raised, ``my_units.py:9``; ``""``: none did."""
    import traceback  # only where somebody asks

    for frame in reversed(traceback.extract_tb(error.__traceback__ if error else None)):
        if is_users(frame.filename):
            return f"{below_here(frame.filename)}:{frame.lineno}"
    return ""


class FlowUnitError(ModelflowError):
    """An error that belongs to one buffer (or to the opening of a unit).

    ``__cause__`` is the exception that the unit raised.

    Attributes:
        node: The node in the graph.
        unit: The flow unit that the node runs.
        phase: ``open``, ``process``, ``stream_start``, ``stream_end`` or ``close``; ``wait``: it
            was not called (a deadline passed); ``transfer``: the copy from or to its device, or to
            or from another process, failed; ``lost``: what it ran in has ended, or was not there.
        session: The session's identifier, or None.
        is_refusal: The data was refused: whoever sent it is at fault, not the unit. A server
            answers 400 with the message; else 500 with an id that stands in its log.
    """

    def __init__(  # noqa: PLR0913 - what is known of an error
        self,
        message: str,
        *,
        node: str = "",
        unit: str = "",
        phase: str = "process",
        session: str | None = None,
        is_refusal: bool = False,
        where: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.unit = unit
        self.phase = phase
        self.session = session
        self.is_refusal = is_refusal
        self._where = where  # of one that was raised in another process

    @classmethod
    def from_exception(
        cls,
        cause: BaseException,
        *,
        node: str,
        unit: str,
        phase: str = "process",
        session: str | None = None,
        is_refusal: bool = False,
    ) -> Self:
        """Gives the error of ``node`` whose cause is ``cause``, which it names in its message."""
        error = cls(
            describe_error(cause),
            node=node,
            unit=unit,
            phase=phase,
            session=session,
            is_refusal=is_refusal,
        )
        error.__cause__ = cause
        return error

    @property
    def code(self) -> str:
        """The short code ``Unit.PhaseError``, as ModelBox writes it."""
        phase = "".join(part.capitalize() for part in self.phase.split("_"))
        return f"{self.unit}.{phase}Error"

    @property
    def where(self) -> str:
        """``my_units.py:9``: the line that raised, of code that is nobody's package; else ``""``.

        Relative to the working folder, if it is below that.
        """
        return self._where or find_line(self.__cause__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        if not self.node:
            return self.message
        what = "was lost" if self.phase == "lost" else f"failed in {self.phase}"
        return f"node {self.node!r} (unit {self.unit!r}) {what}: {self.message}"


class BadRequest(ModelflowError, ValueError):  # noqa: N818 - the name of HTTP's status 400
    """What a unit raises where the data is to blame, not the unit.

    The buffer is in error as after any exception; a server answers its request 400 (gRPC:
    ``INVALID_ARGUMENT``) and passes the message on, where another exception is answered 500, with
    nothing of it but an id that stands in the log.
    """


class WorkerProcessError(ModelflowError):
    """The process of a unit (``workers="process"``) has ended while it worked on a batch."""


class NoReplicaError(ModelflowError):
    """No replica of a placement was ready in time: what was to be done there was sent to none.

    It can be sent again. A server answers 503 (gRPC: ``UNAVAILABLE``).
    """


class ReplicaLostError(ModelflowError):
    """A replica has ended, or does not answer: nobody knows whether it has done what it was sent.

    Of a buffer's error: as often as ``retries`` of its placement say.
    """


class EngineError(ModelflowError):
    """A model file that does not load, or whose ports, shapes or dtypes do not fit."""


class ItemRefusedError(EngineError, BadRequest):
    """An item that a model does not take: its type, its shape or its values are to blame.

    Engines raise it for what only they notice, too. A server answers 400 with its text (gRPC:
    ``INVALID_ARGUMENT``).
    """


class StreamError(ModelflowError):
    """The state of a session forbids the call."""


class EndOfStream(StreamError):  # noqa: N818 - the field's word, as StopIteration is
    """No more results: the input was closed and everything has come out."""


class StreamClosed(StreamError):  # noqa: N818
    """The session's input, or the whole flow, is closed: nothing can be sent any more."""


class RecordingError(ModelflowError):
    """A trace cannot be written; the flow goes on."""


class TuningError(ModelflowError):
    """A graph cannot be tuned: its requests are not answered well."""


class QueueFullError(StreamError):
    """The queue is full and ``queue_policy`` is ``reject``.

    Attributes:
        retry_after: The expected wait in seconds until there is room, or None if not known.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeadlineExceeded(StreamError, TimeoutError):  # noqa: N818
    """The deadline given to ``send`` passed before the result was there."""


class Cancelled(StreamError):  # noqa: N818
    """The session was cancelled."""


class EndFlow(BaseException):
    """Raised by a unit to end the whole flow, which then raises `FlowFailed` with it as the cause.

    Every other exception of a call belongs to the buffers of that call alone.
    """


class MissingDependencyError(ModelflowError, ImportError):
    """A package of an optional extra is not installed."""

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'modelflow-graph[{extra}]'"
        )
        self.package = package
        self.extra = extra


class FlowFailed(ExceptionGroup[Exception]):
    """The flow itself failed: a unit did not open, hung, or the runtime has a bug.

    Each inner exception names its node; the text of this one has what each says.
    """

    def __str__(self) -> str:
        causes = list(dict.fromkeys(map(format_error, self.exceptions)))
        more = f"; and {len(causes) - _MOST_CAUSES} more" if len(causes) > _MOST_CAUSES else ""
        return f"{self.message}: {'; '.join(causes[:_MOST_CAUSES])}{more}"


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        message = f"modelflow.errors.{name} is now {_RENAMED[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def explain_os_error(
    text: str, more: str = "", kind: type[ModelflowError] = ConfigError
) -> Iterator[None]:
    """Says what the system does not let be done inside the block: ``TEXT: REASON``.

    Args:
        text: What cannot be done, and of which option or file.
        more: What stands behind the reason.
        kind: The error that is raised.

    Raises:
        ModelflowError: there is such a thing.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{text}: {error.strerror or error}{more}") from error
