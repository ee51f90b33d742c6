"""Archives that were sent to this machine, each once, by what is in them.

Of the processes that are sent the same one receives it, under a lock that the system gives back
when the process ends; the others wait, and have it then.
"""

import fcntl
import os
from pathlib import Path
from typing import IO

from modelflow.archive.archive import Archive
from modelflow.archive.kept import hold
from modelflow.archive.manifest import SUFFIX
from modelflow.archive.unpacked import cache_folder, make_private

__all__ = ["SentArchives", "digest_of"]


def digest_of(path: Path) -> str:
    """Returns the hash of what is in an archive.

    Raises:
        ConfigError: it is none.
    """
    with Archive(path) as archive:
        return archive.digest


class SentArchives:
    """What a process receives, in pieces that follow one another."""

    def __init__(self) -> None:
        """Begins with nothing."""
        self._files: dict[str, tuple[IO[bytes], IO[bytes]]] = {}

    def path_of(self, digest: str) -> Path:
        """Returns where an archive is, or will be."""
        return cache_folder() / "sent" / f"{digest}{SUFFIX}"

    def has(self, digest: str) -> bool:
        """Tells whether an archive is here; False: `receive` is to follow. Others wait meanwhile.

        Raises:
            OSError, ConfigError: nothing can be written here.
        """
        path = self.path_of(digest)
        for folder in (path.parent.parent, path.parent):
            make_private(folder)
        self._drop(digest)  # who sent it has gone
        lock = path.with_suffix(".lock").open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            lock.close()
            hold(path)
            return True
        self._files[digest] = lock, path.with_suffix(".part").open("wb")
        return False

    def receive(self, digest: str, offset: int, chunk: bytes) -> None:
        """Takes a piece; an empty one is the end.

        Args:
            digest: The archive.
            offset: Where the piece begins.
            chunk: Its bytes.

        Raises:
            OSError: there is no room, say; or another one has begun to send it.
            ConfigError: what came is not the archive.
        """
        lock, part = self._files[digest]
        if part.tell() != offset:
            self._drop(digest)
            message = f"{part.name}: got bytes from {offset} on; expected those that follow"
            raise OSError(message)
        if chunk:
            part.write(chunk)
            return
        del self._files[digest]
        with lock, part:
            part.flush()
            path, draft = self.path_of(digest), Path(part.name)
            if digest_of(draft) != digest:
                draft.unlink()
                message = f"{path}: what came is another archive: it was changed meanwhile"
                raise OSError(message)
            os.replace(draft, path)
        hold(path)

    def _drop(self, digest: str) -> None:
        for file in self._files.pop(digest, ()):
            file.close()
