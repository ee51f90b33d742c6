"""A file of trace events that Perfetto and chrome://tracing open, also if it was cut off.

Events are JSON objects as Chrome's trace format has them ("Trace Event Format", 2016), a line each,
in an array whose end readers do not ask for. They may be compressed: what is
written at each `flush` is a gzip file of its own, one behind the other, since Perfetto refuses one
that is cut off.
"""

import gzip
from pathlib import Path
from types import TracebackType
from typing import Self

_LEVEL = 6  # of compression: zlib's own choice


class TraceFile:
    """Events on their way into a file; for one thread."""

    def __init__(self, path: Path, *, is_packed: bool) -> None:
        """Opens the file anew.

        Args:
            path: Where it is.
            is_packed: It is compressed.

        Raises:
            OSError: it cannot be written.
        """
        self._file = path.open("wb")
        self._is_packed = is_packed
        self._lines: list[str] = []
        self._before = "[\n"

    def write(self, event: str) -> None:
        """Adds an event: a JSON object, in one line."""
        self._lines.append(event)

    def flush(self) -> None:
        """Gives what has been added to the system: it stays if the process is killed."""
        if not self._lines:
            return
        data = (self._before + ",\n".join(self._lines)).encode()
        self._lines.clear()
        self._before = ",\n"
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._file.write(gzip.compress(data, _LEVEL, mtime=0) if self._is_packed else data)
        self._file.flush()

    def close(self) -> None:
        """Ends the array and the file."""
        if self._file.closed:
            return
        try:
            self.flush()
            end = b"\n]\n" if self._before == ",\n" else b"[]\n"
            self._put(end)
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()
