"""The one file that an editor reads and writes."""

import codecs
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from modelflow.config.document import MOST_BYTES
from modelflow.errors import ModelflowError
from modelflow.files.whole_file import write_whole

__all__ = ["ChangedError", "GraphFile", "Stand"]


class Stand(NamedTuple):
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

    def __init__(self, message: str, stand: Stand) -> None:
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
            message = f"{path}: cannot be read: {error}"
            raise ModelflowError(message) from error

    def read(self) -> Stand:
        """Returns what it holds.

        Raises:
            ModelflowError: it cannot be read, is too large, or is no text.
        """
        if self._path.exists() and not self._path.is_file():
            message = f"{self.path}: is no file"
            raise ModelflowError(message)
        try:
            with self._path.open("rb") as file:
                contents = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return Stand("", "")
        except OSError as error:
            message = f"{self.path}: cannot be read: {error.strerror or error}"
            raise ModelflowError(message) from error
        if len(contents) > MOST_BYTES:
            message = f"{self.path}: has more than {MOST_BYTES} bytes"
            raise ModelflowError(message)
        try:
            self._bom = codecs.BOM_UTF8 if contents.startswith(codecs.BOM_UTF8) else b""
            return Stand(contents.decode("utf-8-sig"), _mark(contents))
        except UnicodeDecodeError as error:
            message = f"{self.path}: is no text in UTF-8: {error}"
            raise ModelflowError(message) from error

    def write(self, text: str, mark: str) -> str:
        """Writes a text, unless the file is another by now.

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
            message = f"the text has {len(contents)} bytes; expected at most {MOST_BYTES}"
            raise ModelflowError(message)
        now = self.read()
        if now.mark != mark:
            what = "has changed" if now.mark else "is no longer there"
            message = f"{self.path} {what} since it was opened; it was not written"
            raise ChangedError(message, now)
        if now.mark and not os.access(self._path, os.W_OK):  # another would take its place
            message = f"{self.path}: cannot be written: it is read-only"
            raise ModelflowError(message)
        try:
            write_whole(self._path, contents)
        except OSError as error:
            message = f"{self.path}: cannot be written: {error.strerror or error}"
            raise ModelflowError(message) from error
        return _mark(contents)


def _mark(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()
