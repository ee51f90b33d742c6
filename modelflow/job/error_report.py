"""The errors of a run: logged at once, written in full to ``--errors``, and summarized."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Self

from modelflow.buffer import Buffer
from modelflow.error_log import ErrorLog
from modelflow.errors import ConfigError, FlowUnitError, describe_error, explain_os_error
from modelflow.files.json_value import show_value
from modelflow.job.done_inputs import FailedCounts
from modelflow.wire.json_writer import json_line

Report = Callable[[str, FlowUnitError | None], None]

# The most kinds of errors in the summary.
_MOST_KINDS = 20


class ErrorReport:
    """The failed items of a run; safe for several threads.

    Attributes:
        before: Number of errors in the earlier runs that this run continues.
    """

    def __init__(self, path: Path | None, report: Report, *, is_resumed: bool) -> None:
        """Opens the file.

        Args:
            path: The file with a JSON line for each error, or None.
            report: Called with each message, and with the error if the message has one.
            is_resumed: Whether to keep the content of the file.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._log = ErrorLog(report)
        self._lock = threading.Lock()
        self._path = path
        self.before = 0
        self._file: BinaryIO | None = None
        self._failure: ConfigError | None = None
        if path is not None:
            with explain_os_error(f"--errors {path}: cannot be written"):
                self._file = path.open("ab" if is_resumed else "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # bytes of a failed `_write` are still in the buffer
                self._file.close()
        if kind is None and self._failure is not None:  # the flow's thread went on
            raise self._failure

    def add(self, buffer: Buffer, line: dict[str, Any] | None = None) -> None:
        """Reports a buffer in error.

        Args:
            buffer: The buffer.
            line: The first fields of its line in the file: the output and the number of the
                result. None if the buffer came out of no output.

        Raises:
            ConfigError: The file cannot be written. Raised only once.
        """
        self._log.add(buffer)
        if self._file is not None:
            meta = {key: _describe(value) for key, value in buffer.meta.items() if key != "path"}
            whole = {
                **(line or place_of(buffer)),
                "error": error_fields(buffer),
                "meta": show_value(meta),
            }
            self._write(json_line(whole).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with self._lock:
            if self._file is None or self._failure is not None:
                return
            try:
                with explain_os_error(f"--errors {self._path}: cannot be written"):
                    self._file.write(line)
                    self._file.flush()
            except ConfigError as failure:
                self._failure = failure
                raise

    def go_on(self, before: FailedCounts) -> None:
        """Continues the errors of earlier runs; removes lines of inputs that are not done.

        Args:
            before: The errors among the finished inputs.

        Raises:
            ConfigError: The file cannot be written.
        """
        self.before = before.errors
        if self._file is None or str(self._path) != before.file:
            return
        with explain_os_error(f"--errors {self._path}: cannot be written"):
            if self._file.tell() > before.size:
                self._file.truncate(before.size)

    def count_failures(self) -> FailedCounts:
        """Returns the errors so far, including earlier runs."""
        with self._lock:
            size = 0 if self._file is None else self._file.tell()
            return FailedCounts(self.before + self.count, str(self._path or ""), size)

    @property
    def count(self) -> int:
        """The number of errors in this run."""
        return self._log.count

    def summary(self) -> Iterator[str]:
        """Yields lines: the number of errors of each kind and node, and the first error."""
        kinds = self._log.kinds
        if sum(kind.count for kind in kinds) <= 1:
            return
        for kind in kinds[:_MOST_KINDS]:
            what = f"{kind.type} in {kind.node!r}" if kind.node else "others"
            yield f"{kind.count:7} x {what}, first: {kind.first}"
        if len(kinds) > _MOST_KINDS:
            left = sum(kind.count for kind in kinds[_MOST_KINDS:])
            yield f"{left:7} x of {len(kinds) - _MOST_KINDS} more kinds"


def place_of(buffer: Buffer) -> dict[str, Any]:
    """Returns the fields of a line that name the file of a buffer."""
    path = buffer.get("path")
    return {"path": str(path)} if isinstance(path, str | PurePath) else {}


def _describe(value: Any) -> Any:
    """Returns a value of a failed item for JSON, or an error text instead."""
    try:
        found = show_value(value)
        json_line(found)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the object's own code may raise anything
        return f"cannot be shown: {describe_error(error)}"
    return found


def error_fields(buffer: Buffer) -> dict[str, str]:
    """Returns the fields of a line that describe the error of a buffer."""
    error = buffer.error
    assert error is not None  # the caller has checked this
    cause = error.__cause__ or error
    return {
        "node": error.node,
        "unit": error.unit,
        "phase": error.phase,
        **({"where": error.where} if error.where else {}),
        "type": type(cause).__name__,
        "message": str(error),
    }
