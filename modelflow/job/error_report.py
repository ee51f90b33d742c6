"""The errors of a run: told as they happen, written whole into ``--errors``, summed up."""

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

# So many kinds stand in the summary.
_MOST_KINDS = 20


class ErrorReport:
    """What became of the items that failed. Safe from any thread.

    Attributes:
        before: How many errors there were in the runs before that this one goes on with.
    """

    def __init__(self, path: Path | None, report: Report, *, is_resumed: bool) -> None:
        """Opens the file.

        Args:
            path: Where each error is a JSON line; None: nowhere.
            report: Called with each message, and with the error that it is about.
            is_resumed: What is in the file stays.

        Raises:
            ConfigError: the file cannot be written.
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
            with contextlib.suppress(OSError):  # what `_write` could not write is in it still
                self._file.close()
        if kind is None and self._failure is not None:  # on a thread of the flow, which goes on
            raise self._failure

    def add(self, buffer: Buffer, line: dict[str, Any] | None = None) -> None:
        """Takes a buffer in error.

        Args:
            buffer: It.
            line: What begins its line in the file: where it came out; None: nowhere.

        Raises:
            ConfigError: the file cannot be written, which is said once.
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
        """Takes over what has failed before; cuts off what was told of inputs that are not done.

        Args:
            before: What has failed of what is done.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.before = before.errors
        if self._file is None or str(self._path) != before.file:
            return
        with explain_os_error(f"--errors {self._path}: cannot be written"):
            if self._file.tell() > before.size:
                self._file.truncate(before.size)

    def count_failures(self) -> FailedCounts:
        """Returns what has failed so far, in the runs before as well."""
        with self._lock:
            size = 0 if self._file is None else self._file.tell()
            return FailedCounts(self.before + self.count, str(self._path or ""), size)

    @property
    def count(self) -> int:
        """How many there were."""
        return self._log.count

    def summary(self) -> Iterator[str]:
        """Gives lines: how many of each kind, in which node, and the first of them."""
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
    """Returns what a line says of where a buffer came from."""
    path = buffer.get("path")
    return {"path": str(path)} if isinstance(path, str | PurePath) else {}


def _describe(value: Any) -> Any:
    """Returns what is known of an item that failed; why, where that cannot be shown."""
    try:
        found = show_value(value)
        json_line(found)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is anybody's object
        return f"cannot be shown: {describe_error(error)}"
    return found


def error_fields(buffer: Buffer) -> dict[str, str]:
    """Returns what a line says of the error of a buffer."""
    error = buffer.error
    assert error is not None  # the caller has looked
    cause = error.__cause__ or error
    return {
        "node": error.node,
        "unit": error.unit,
        "phase": error.phase,
        **({"where": error.where} if error.where else {}),
        "type": type(cause).__name__,
        "message": str(error),
    }
