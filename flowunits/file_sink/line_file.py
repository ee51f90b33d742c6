"""A file to which whole lines are appended."""

import os
import stat
from pathlib import Path

__all__ = ["LineFile"]


class LineFile:
    """Appends lines to a file. Only one thread may use an object at a time.

    There is no buffer in memory: a line whose write failed is not written later.
    """

    def __init__(self, path: Path, *, is_new: bool) -> None:
        """Opens the file and makes missing folders.

        Args:
            path: The file. A symbolic link is not followed, because it may lead anywhere.
            is_new: Whether to remove the present contents.

        Raises:
            OSError: the file cannot be opened, or is a symbolic link.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags | (os.O_TRUNC if is_new else 0), 0o666)
        self._is_regular = stat.S_ISREG(os.fstat(self._file).st_mode)

    def write(self, line: bytes) -> None:
        """Appends a line.

        Raises:
            OSError: the line cannot be written. The part that was written is removed.
        """
        written, start = 0, os.fstat(self._file).st_size
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except BaseException:
            # Truncating would destroy the lines of another process that has appended since.
            is_ours = os.fstat(self._file).st_size == start + written
            if written and self._is_regular and is_ours:
                os.ftruncate(self._file, start)
            raise

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
