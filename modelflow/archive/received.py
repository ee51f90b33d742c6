"""Archives that other machines have sent, each received once and named by its contents.

If several processes are sent the same archive, one receives it under a lock and the others wait.
The system releases the lock when the process ends.
"""

import fcntl
import math
import os
import threading
import time
from pathlib import Path
from typing import IO, NamedTuple

from modelflow.archive.archive import Archive
from modelflow.archive.cache import hold
from modelflow.archive.suffix import SUFFIX
from modelflow.archive.unpack import cache_folder, make_private
from modelflow.errors import ConfigError

# A sender is considered gone after so many seconds without a piece.
_GONE = 30.0


def digest_of(path: Path) -> str:
    """Returns the hash of an archive's contents.

    Raises:
        ConfigError: The file is no archive.
    """
    with Archive(path) as archive:
        return archive.digest


class _IncomingArchive(NamedTuple):
    """An archive that is being received.

    Attributes:
        sender: The sender.
        lock: The lock file, which other processes wait for. None while this process waits for them.
        part: The file of the received pieces.
        last: The time of the latest piece, as `time.monotonic`.
    """

    sender: str
    lock: IO[bytes] | None = None
    part: IO[bytes] | None = None
    last: float = math.inf


class SentArchives:
    """The archives that a process receives in consecutive pieces. Safe from any thread."""

    def __init__(self) -> None:
        """Starts without archives."""
        self._changed = threading.Condition()
        self._coming: dict[str, _IncomingArchive] = {}

    def path_of(self, digest: str) -> Path:
        """Returns the path of an archive that was or will be received."""
        return cache_folder() / "sent" / f"{digest}{SUFFIX}"

    def has(self, digest: str, sender: str) -> bool:
        """Returns True if an archive exists here, else False and `receive` must follow.

        While one sender sends an archive, other callers for the same archive wait.

        Args:
            digest: The archive.
            sender: The caller, which would send the archive.

        Raises:
            OSError, ConfigError: The folder is not writable.
        """
        path = self.path_of(digest)
        for folder in (path.parent.parent, path.parent):
            make_private(folder)
        hold(path)
        with self._changed:
            while (coming := self._coming.get(digest)) is not None:
                left = coming.last + _GONE - time.monotonic()
                if left <= 0 or coming.sender == sender:
                    self._end(digest)
                else:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
            self._coming[digest] = _IncomingArchive(sender)
        lock = path.with_suffix(".lock").open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX)
        with self._changed:
            is_here = _is_archive(path, digest)
            part = None if is_here else path.with_suffix(".part").open("wb")
            self._coming[digest] = _IncomingArchive(sender, lock, part, time.monotonic())
            if is_here:
                self._end(digest)
            return is_here

    def receive(self, digest: str, sender: str, offset: int, chunk: bytes) -> None:
        """Stores a piece of an archive; an empty piece ends the archive.

        Args:
            digest: The archive.
            sender: The sender.
            offset: The position of the piece in the archive.
            chunk: The bytes of the piece.

        Raises:
            OSError: The disk is full, for example, or another sender has started to send the
                archive.
            ConfigError: The received bytes are no archive, or differ from the manifest.
        """
        with self._changed:
            coming = self._coming.get(digest)
            part = None if coming is None or coming.sender != sender else coming.part
            if coming is None or part is None or part.tell() != offset:
                raise OSError(f"archive {digest}: bytes from {offset} on are not those that follow")
            if chunk:
                part.write(chunk)
                self._coming[digest] = coming._replace(last=time.monotonic())
                return
            part.flush()
            path, draft = self.path_of(digest), Path(part.name)
            try:
                with Archive(draft) as archive:
                    archive.verify()
                    if archive.digest != digest:
                        raise ConfigError(
                            f"archive {digest}: got another archive: the file was changed meanwhile"
                        )
                os.replace(draft, path)
            finally:
                draft.unlink(missing_ok=True)
                self._end(digest)

    def _end(self, digest: str) -> None:
        coming = self._coming.pop(digest)
        for file in (coming.part, coming.lock):
            if file is not None:
                file.close()
        self._changed.notify_all()


def _is_archive(path: Path, digest: str) -> bool:
    """Returns True if an archive is complete, according to its manifest and its length."""
    try:
        return path.exists() and digest_of(path) == digest
    except ConfigError:
        return False
