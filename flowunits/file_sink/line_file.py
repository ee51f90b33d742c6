"""A file of lines, each whole or not there at all."""

import os
import stat
from pathlib import Path

__all__ = ["LineFile"]


class LineFile:
    """Appends lines to a file. For one thread at a time.

    Nothing waits in memory: a line that was refused is not written later.
    """

    def __init__(self, path: Path, *, is_new: bool) -> None:
        """Opens the file; folders that are not there are made.

        Args:
            path: The file. A link is not followed: it may lead anywhere.
            is_new: Whether what is in the file goes.

        Raises:
            OSError: it cannot be opened, or is a link.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags | (os.O_TRUNC if is_new else 0), 0o666)
        self._is_regular = stat.S_ISREG(os.fstat(self._file).st_mode)

    def write(self, line: bytes) -> None:
        """Appends a line.

        Raises:
            OSError: it cannot be written; nothing of it is left.
        """
        written, start = 0, os.fstat(self._file).st_size
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except BaseException:
            # Not where another process has written as well.
            is_ours = os.fstat(self._file).st_size == start + written
            if written and self._is_regular and is_ours:
                os.ftruncate(self._file, start)
            raise

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
