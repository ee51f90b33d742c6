"""Archives that were sent to this machine, each once, by what is in them.

Of the processes that are sent the same one receives it, under a lock that the system gives back
when the process ends; the others wait, and have it then.
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
from modelflow.archive.manifest import SUFFIX
from modelflow.archive.unpack import cache_folder, make_private
from modelflow.errors import ConfigError

# Seconds without a piece after which who sends an archive has gone.
_GONE = 30.0


def digest_of(path: Path) -> str:
    """Returns the hash of what is in an archive.

    Raises:
        ConfigError: it is none.
    """
    with Archive(path) as archive:
        return archive.digest


class _IncomingArchive(NamedTuple):
    """One that is being received.

    Attributes:
        sender: Who sends it.
        lock: The file by which other processes wait; None: this one waits for them.
        part: Where its pieces go.
        last: When a piece came last, as `time.monotonic` says it.
    """

    sender: str
    lock: IO[bytes] | None = None
    part: IO[bytes] | None = None
    last: float = math.inf


class SentArchives:
    """What a process receives, in pieces that follow one another; from any thread."""

    def __init__(self) -> None:
        """Begins with nothing."""
        self._changed = threading.Condition()
        self._coming: dict[str, _IncomingArchive] = {}

    def path_of(self, digest: str) -> Path:
        """Returns where an archive is, or will be."""
        return cache_folder() / "sent" / f"{digest}{SUFFIX}"

    def has(self, digest: str, sender: str) -> bool:
        """Tells whether an archive is here; False: `receive` is to follow. Others wait meanwhile.

        Args:
            digest: The archive.
            sender: Who asks, and would send it.

        Raises:
            OSError, ConfigError: nothing can be written here.
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
        """Takes a piece; an empty one is the end.

        Args:
            digest: The archive.
            sender: Who sends it.
            offset: Where the piece begins.
            chunk: Its bytes.

        Raises:
            OSError: there is no room, say; or another one has begun to send it.
            ConfigError: what came is no archive, or not as its manifest says.
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
                            f"archive {digest}: another one came: it was changed meanwhile"
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
    """Tells whether an archive is whole, as far as its manifest and its length say."""
    try:
        return path.exists() and digest_of(path) == digest
    except ConfigError:
        return False
