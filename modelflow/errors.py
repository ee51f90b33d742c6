"""The exceptions of modelflow.

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
    ├── PlanError                   the machine or this version cannot run the graph
    │   └── DeviceUnavailableError
    ├── FlowUnitError               raised inside a flow unit: node, unit, phase, session
    ├── WorkerProcessError          the process of a unit ended during a call
    ├── NoReplicaError              no replica of a placement was ready
    ├── ReplicaLostError            a replica ended or hangs during a call
    ├── EngineError                 a model file that does not load, or does not fit its ports
    │   └── ItemRefusedError        (also a BadRequest) an item that the model does not accept
    ├── StreamError                 the life of a session
    │   ├── EndOfStream
    │   ├── StreamClosed
    │   ├── QueueFullError
    │   ├── DeadlineExceeded        (also a TimeoutError)
    │   └── Cancelled
    └── MissingDependencyError      (also an ImportError) with the pip command
    FlowFailed                      (an ExceptionGroup) the flow itself failed

If a time-out of the caller passes, the call raises Python's own ``TimeoutError``.
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
    """A place in a file: the file (or ``<text>``), and the line, counted from 1.

    ``line`` is None for a mapping or a graph built in code, which have no lines.
    """

    file: str = "<text>"
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a graph, as a line of text.

    Attributes:
        location: The place of the mistake.
        message: The text: the value that was found, and the values that are expected.
        node: The node with the mistake, or None for the graph itself.
        error: The kind of mistake, a subclass of `ModelflowError`.
        port: The port with the mistake, or None for no port or several.
    """

    location: Location
    message: str
    node: str | None = None
    error: "type[ModelflowError] | None" = None
    port: str | None = None

    def hiding(self, mask: Callable[[str], str]) -> "Finding":
        """Returns this finding with its message passed through ``mask``, which hides secrets."""
        return replace(self, message=mask(self.message))

    def __str__(self) -> str:
        node = f"node {self.node!r}: " if self.node is not None else ""
        return f"{self.location}: {node}{self.message}"


def text_of(findings: Iterable[Finding]) -> str:
    """Returns a line for each finding, and merges the lines of nodes with the same message."""
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
        lines.append(f"{first}; the same for {', '.join(nodes)}" if nodes else str(first))
    return "\n".join(lines)


def below_here(path: str) -> str:
    """Returns a path relative to the working folder if the path is below that folder.

    Other paths are returned unchanged.
    """
    seen = os.path.relpath(path)
    return path if seen.startswith(os.pardir) else seen


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the known name nearest to ``name``, else ``""``."""
    near = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


# The most causes that the text of a `FlowFailed` names.
_MOST_CAUSES = 10


def absence_hint(path: Path) -> str:
    """Returns a hint for a missing file: a file with a similar name, and the folder's README."""
    readme, folder = path.parent / "README.md", path.parent
    near = did_you_mean(path.name, os.listdir(folder)) if folder.is_dir() else ""
    return near + (f"; {readme} says how to make it" if readme.is_file() else "")


def format_error(error: Exception) -> str:
    """Returns the text of an error of modelflow or of a time-out; otherwise class and text."""
    return str(error) if isinstance(error, ModelflowError | TimeoutError) else describe_error(error)


def describe_error(error: BaseException) -> str:
    """Returns the class and the text of an exception, as in ``ValueError: too wide``.

    Returns the class alone if the text is empty, or if ``str()`` of a user's exception raises.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the class is enough for a message
        return name
    return f"{name}: {text}" if text else name


class ModelflowError(Exception):
    """The base class of every error of modelflow."""


class _FindingsError(ModelflowError):
    """An error that lists all findings of one reading or one check."""

    def __init__(self, findings: Sequence[Finding] | str) -> None:
        self.findings: tuple[Finding, ...] = () if isinstance(findings, str) else tuple(findings)
        super().__init__(findings if isinstance(findings, str) else text_of(self.findings))


class ConfigError(_FindingsError):
    """A graph file or unit file that cannot be read; ``findings`` holds all of its mistakes."""


class OptionsError(ConfigError):
    """Options that a unit does not accept.

    Attributes:
        problems: A sentence for each wrong option.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class ArgumentError(ConfigError):
    """An argument that contradicts the graph or another argument."""


class GraphError(_FindingsError):
    """A graph that cannot run; ``findings`` holds the mistakes of one check, in file order.

    Of more than a hundred mistakes, it holds the first hundred, and a finding that says so.
    """


class UnknownFlowUnitError(GraphError):
    """A node with a flow unit that no registry knows."""


class PortError(GraphError):
    """A port that does not exist, is not connected, or is fed twice."""


class CycleError(GraphError):
    """A cycle without a loop unit."""


class StreamMismatchError(GraphError):
    """A node that joins streams of different origins or of different depths."""


class DisabledGraphError(GraphError):
    """A graph that is disabled by ``[flow] enable=false``."""


class PlanError(ModelflowError):
    """A correct graph that this machine or this version of modelflow cannot run."""


class DeviceUnavailableError(PlanError):
    """A device that this machine does not have; the message names the devices of the machine.

    Attributes:
        findings: A finding for each node with such a device, if a graph was checked.
    """

    findings: tuple[Finding, ...] = ()


@functools.cache
def _packages() -> tuple[str, ...]:
    """Returns the folders of modelflow and of all installed packages."""
    import sysconfig

    named = sysconfig.get_paths()
    own = os.path.dirname(os.path.abspath(__file__))
    units = os.path.join(os.path.dirname(own), "flowunits")  # in a source checkout
    found = {own, units, *(named[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))}
    return tuple(os.path.join(path, "") for path in found)


def is_users(file: str) -> bool:
    """Returns whether a file of Python code belongs to the user, and not to an installed package.

    Names that are no file, such as ``<string>``, do not belong to the user.
    """
    return not file.startswith(("<", *_packages()))


def find_line(error: BaseException | None) -> str:
    """Returns the innermost line of user code in a traceback (``my_units.py:9``), or ``""``."""
    import traceback  # its import takes time that most programs do not need

    for frame in reversed(traceback.extract_tb(error.__traceback__ if error else None)):
        if is_users(frame.filename):
            return f"{below_here(frame.filename)}:{frame.lineno}"
    return ""


class FlowUnitError(ModelflowError):
    """An error of one buffer, or of the opening of a unit.

    ``__cause__`` is the exception that the unit raised.

    Attributes:
        node: The node in the graph.
        unit: The flow unit that the node runs.
        phase: ``open``, ``process``, ``stream_start``, ``stream_end`` or ``close``, the method that
            failed. ``wait`` if the unit was not called because a deadline passed. ``transfer`` if
            the copy from or to its device or another process failed. ``lost`` if the process or
            replica of the unit ended, or was not available.
        session: The identifier of the session, or None.
        is_refusal: True if the unit refused the data, so the sender made the mistake. A server
            answers 400 with the message. For other errors it answers 500 with an id, which its log
            contains, too.
    """

    def __init__(  # noqa: PLR0913 - the facts of an error
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
        # given for an error from another process, whose traceback is not available here
        self._where = where

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
        """Returns an error of ``node`` with the cause ``cause``, which its message describes."""
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
        """The short code ``Unit.PhaseError``, in the form of ModelBox."""
        phase = "".join(part.capitalize() for part in self.phase.split("_"))
        return f"{self.unit}.{phase}Error"

    @property
    def where(self) -> str:
        """The line of user code that raised, as in ``my_units.py:9``, or ``""``.

        The path is relative to the working folder if the file is below that folder.
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
    """An exception for units to raise if the data is wrong, and not the unit.

    The buffer gets an error, as after any exception. A server answers the request 400 (gRPC:
    ``INVALID_ARGUMENT``) with the message. After other exceptions it answers 500, and the reply
    holds only an id, which the log contains, too.
    """


class WorkerProcessError(ModelflowError):
    """A process of a unit (``workers="process"``) that ended while the unit processed a batch."""


class NoReplicaError(ModelflowError):
    """A batch that was sent to no replica of a placement, because none was ready in time.

    You can send the request again. A server answers 503 (gRPC: ``UNAVAILABLE``).
    """


class ReplicaLostError(ModelflowError):
    """A replica that ended or does not answer, and may or may not have processed the batch.

    As the cause of a buffer's error, it means that ``retries`` of the placement are used up.
    """


class EngineError(ModelflowError):
    """A model file that does not load, or whose ports, shapes or dtypes do not fit."""


class ItemRefusedError(EngineError, BadRequest):
    """An item that a model does not accept because of its type, shape or values.

    Engines also raise it for mistakes that only the engine can find. A server answers 400 with its
    text (gRPC: ``INVALID_ARGUMENT``).
    """


class StreamError(ModelflowError):
    """A call that the state of a session does not allow."""


class EndOfStream(StreamError):  # noqa: N818 - the field's word, as StopIteration is
    """The end of a stream: the input was closed, and all results were received."""


class StreamClosed(StreamError):  # noqa: N818
    """A closed session input or a closed flow, to which nothing can be sent any more."""


class RecordingError(ModelflowError):
    """A trace that cannot be written; the flow continues."""


class TuningError(ModelflowError):
    """A graph that cannot be tuned, because its requests fail."""


class QueueFullError(StreamError):
    """A full queue, in a call that must not wait.

    Either ``queue_policy`` is ``reject``, or the call has ``wait=False``.

    Attributes:
        retry_after: The expected time in seconds until the queue has room, or None if not known.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeadlineExceeded(StreamError, TimeoutError):  # noqa: N818
    """A deadline of `StreamIO.send` or `Flow.infer` that passed before the result was ready."""


class Cancelled(StreamError):  # noqa: N818
    """A session that was cancelled."""


class EndFlow(BaseException):
    """An exception that ends the whole flow, which then raises `FlowFailed` with this cause.

    Every other exception of a unit affects only the buffers of that call.
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
    """A failure of the flow itself: a unit did not open, a unit hung, or the runtime has a bug.

    Each inner exception names its node. The text of this exception contains their texts.
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
    """Raises an `OSError` of the block as an error of modelflow with the text ``TEXT: REASON``.

    Args:
        text: The action that failed, with its option or file.
        more: The text after the reason.
        kind: The class of the error.

    Raises:
        ModelflowError: The block raised an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{text}: {error.strerror or error}{more}") from error
