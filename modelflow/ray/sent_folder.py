"""A folder of a machine for what was sent to it, which goes when its process does.

A process that is killed removes nothing: the next one that has such a folder there does it. A lock
that the kernel gives back tells which folders are nobody's.
"""

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path

__all__ = ["SentFolder"]

_PREFIX = "modelflow-sent-"
_LOCK = "lock"


class SentFolder:
    """A new folder of this process.

    Attributes:
        path: Where it is.
    """

    def __init__(self) -> None:
        """Makes it, and removes those of processes that were killed."""
        for other in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
            _remove_where_left(other)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        new = self.path / f"{_LOCK}.new"
        self._lock = new.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path / _LOCK)  # now that it is held others may see it

    def remove(self) -> None:
        """Removes it with all that is in it; more than once, too."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_where_left(lock: Path) -> None:
    # It is another user's, or has gone meanwhile, or somebody has it.
    with contextlib.suppress(OSError), lock.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(lock.parent)
