"""Reads and writes the file of an editor."""

import codecs
import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from modelflow.config.document import MOST_BYTES
from modelflow.errors import ModelflowError, explain_os_error
from modelflow.files.whole_file import write_whole

_log = logging.getLogger(__name__)


class FileState(NamedTuple):
    """The contents of a file.

    Attributes:
        text: The text, with its line ends unchanged and without a byte order mark.
        mark: The hash of the contents. "" if the file does not exist.
    """

    text: str
    mark: str


class ChangedError(ModelflowError):
    """An error because the file changed after the editor had read or written the file.

    Attributes:
        stand: The current contents of the file.
    """

    def __init__(self, message: str, stand: FileState) -> None:
        super().__init__(message)
        self.stand = stand


class GraphFile:
    """A graph file, which need not exist yet.

    Attributes:
        path: The path as given.
    """

    def __init__(self, path: Path) -> None:
        """Takes the path; for a link, the target of the link is written.

        Raises:
            ModelflowError: The links form a circle.
        """
        self.path = path
        self._bom = b""
        try:
            self._path = path.resolve()
        except (OSError, RuntimeError) as error:  # the links form a circle
            raise ModelflowError(f"{path}: cannot be read: {error}") from error

    def read(self) -> FileState:
        """Returns the contents of the file.

        Raises:
            ModelflowError: The file cannot be read, is too large, or is no text.
        """
        with explain_os_error(f"{self.path}: cannot be read", kind=ModelflowError):
            if self._path.exists() and not self._path.is_file():
                raise ModelflowError(f"{self.path}: is no file")
            try:
                with self._path.open("rb") as file:
                    contents = file.read(MOST_BYTES + 1)
            except FileNotFoundError:
                return FileState("", "")
        if len(contents) > MOST_BYTES:
            raise ModelflowError(f"{self.path}: has more than {MOST_BYTES} bytes")
        try:
            self._bom = codecs.BOM_UTF8 if contents.startswith(codecs.BOM_UTF8) else b""
            return FileState(contents.decode("utf-8-sig"), _mark(contents))
        except UnicodeDecodeError as error:
            raise ModelflowError(f"{self.path}: is no text in UTF-8: {error}") from error

    def write(self, text: str, mark: str) -> str:
        """Writes a text, unless the file has changed in the meantime.

        If two editors write at once, in one process or in two, one of them gets an error. To ensure
        this, the folder is locked from the comparison until the new file is in place.

        Args:
            text: The new text.
            mark: The mark of the last known contents.

        Returns:
            The mark of the text.

        Raises:
            ChangedError: The file has changed.
            ModelflowError: The file cannot be written, or the text is too long.
        """
        contents = self._bom + text.encode()
        if len(contents) > MOST_BYTES:
            raise ModelflowError(
                f"the text has {len(contents)} bytes; expected at most {MOST_BYTES}"
            )
        with explain_os_error(f"{self.path}: cannot be written", kind=ModelflowError):
            if not mark:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            with _lock(self._path.parent):
                self._check(mark)
                write_whole(self._path, contents)
        return _mark(contents)

    def _check(self, mark: str) -> None:
        """Raises the error of `write` if the file has changed or is read-only."""
        now = self.read()
        if now.mark != mark:
            what = "has changed" if now.mark else "is no longer there"
            raise ChangedError(f"{self.path} {what} since it was opened; it was not written", now)
        if now.mark and not os.access(self._path, os.W_OK):  # a new file would replace it
            raise ModelflowError(f"{self.path}: cannot be written: it is read-only")


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Locks out other editors that write in a folder, inside the block.

    The lock is on the folder, because each write replaces the file by a new one.
    """
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # folder and file were removed, which the comparison detects
        yield
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems have no such locks
            text = "%s: cannot be locked (%s); of two editors that save at once one may be lost"
            _log.warning(text, folder, error.strerror or error)
        yield
    finally:
        os.close(held)


def _mark(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()
