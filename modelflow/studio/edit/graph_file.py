"""The one file that an editor reads and writes."""

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
    """What a file holds.

    Attributes:
        text: Its text, with its line ends as they are, without a mark of its byte order.
        mark: What tells it from any other; "": there is no file.
    """

    text: str
    mark: str


class ChangedError(ModelflowError):
    """The file is another than the one that was opened, or written last.

    Attributes:
        stand: What it holds now.
    """

    def __init__(self, message: str, stand: FileState) -> None:
        super().__init__(message)
        self.stand = stand


class GraphFile:
    """A graph file; it need not be there yet.

    Attributes:
        path: As it was named.
    """

    def __init__(self, path: Path) -> None:
        """Takes the path; what a link leads to is what is written.

        Raises:
            ModelflowError: links lead round in a circle.
        """
        self.path = path
        self._bom = b""
        try:
            self._path = path.resolve()
        except (OSError, RuntimeError) as error:  # links that lead round in a circle
            raise ModelflowError(f"{path}: cannot be read: {error}") from error

    def read(self) -> FileState:
        """Returns what it holds.

        Raises:
            ModelflowError: it cannot be read, is too large, or is no text.
        """
        if self._path.exists() and not self._path.is_file():
            raise ModelflowError(f"{self.path}: is no file")
        with explain_os_error(f"{self.path}: cannot be read", kind=ModelflowError):
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
        """Writes a text, unless the file is another by now.

        Of two editors that write at once, in one process or in two, one is refused: the folder is
        locked from the comparison until the file is in its place.

        Args:
            text: What it is to hold.
            mark: That of what it is known to hold.

        Returns:
            The mark of the text.

        Raises:
            ChangedError: the file is another.
            ModelflowError: it cannot be written, or the text is too long.
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
        """Raises what `write` raises where the file is another, or may not be written."""
        now = self.read()
        if now.mark != mark:
            what = "has changed" if now.mark else "is no longer there"
            raise ChangedError(f"{self.path} {what} since it was opened; it was not written", now)
        if now.mark and not os.access(self._path, os.W_OK):  # another would take its place
            raise ModelflowError(f"{self.path}: cannot be written: it is read-only")


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keeps other editors from writing in a folder, inside the block.

    The folder is locked, not the file: each write puts another file in its place.
    """
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # it was removed, and so was the file: the comparison says it
        yield
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError as error:  # some file systems of a network have no such locks
            text = "%s: cannot be locked (%s); of two editors that save at once one may be lost"
            _log.warning(text, folder, error.strerror or error)
        yield
    finally:
        os.close(held)


def _mark(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()
