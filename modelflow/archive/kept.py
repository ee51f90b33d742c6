"""What is kept of archives on this machine: those that were sent, and what they were unpacked into.

A process that uses a copy holds a lock for as long as it runs (`hold`), which the system gives back
when it ends, however it does; such a copy is not removed.
"""

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelflow.archive.manifest import SUFFIX
from modelflow.errors import ConfigError
from modelflow.sizes import bytes_of

__all__ = ["KeptCopy", "hold", "keep_size", "list_copies", "prune"]

_SIZE = "MODELFLOW_CACHE_SIZE"
_USED = ".used"
_held: dict[Path, int] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """One copy.

    Attributes:
        path: Its folder, or its file.
        size: The bytes of its files.
        used_at: When a process began to use it last, as `time.time` says it.
        is_used: A process uses it.
    """

    path: Path
    size: int
    used_at: float
    is_used: bool


def hold(place: Path) -> None:
    """Keeps a copy from being removed until this process ends. May be called again.

    Raises:
        OSError: its lock cannot be taken, on a disk that cannot be written to, say.
    """
    with _lock:
        if place not in _held:
            file = os.open(_used_file(place), os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(file, fcntl.LOCK_SH)
            os.utime(file)
            _held[place] = file


def list_copies(folder: Path) -> list[KeptCopy]:
    """Returns the copies below a folder, that which was used last first.

    Args:
        folder: See `modelflow.archive.unpacked.cache_folder`; it need not be there.
    """
    places = [place for place in folder.glob("*/*") if place.is_dir() or place.suffix == SUFFIX]
    found = [_look_at(place) for place in places]
    return sorted(found, key=lambda copy: copy.used_at, reverse=True)


def prune(
    folder: Path, *, most_bytes: int = 0, unused_for: float = 0.0, now: float
) -> list[KeptCopy]:
    """Removes the copies that were used longest ago, until the others have room.

    Args:
        folder: Where they are.
        most_bytes: What all that are left may have.
        unused_for: Only those that nobody has begun to use for so many seconds.
        now: The time, as `time.time` says it.

    Returns:
        Those that were removed; one that a process uses is none of them.
    """
    copies = list_copies(folder)
    left = sum(copy.size for copy in copies)
    removed = []
    for copy in reversed(copies):
        is_due = left > most_bytes and now - copy.used_at >= unused_for
        if is_due and _remove(copy.path):
            removed.append(copy)
            left -= copy.size
    return removed


def keep_size(folder: Path) -> None:
    """Removes what was used longest ago beyond what $MODELFLOW_CACHE_SIZE lets be kept, if it does.

    Raises:
        ConfigError: it is no size.
    """
    given = os.environ.get(_SIZE)
    if given:
        most = bytes_of(given)
        if most is None:
            message = f"{_SIZE}: got {given!r}; expected a size such as 10GiB"
            raise ConfigError(message)
        prune(folder, most_bytes=int(most), now=time.time())


def _look_at(place: Path) -> KeptCopy:
    files = [Path(folder, name) for folder, _, names in os.walk(place) for name in names] or [place]
    size = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # it is just being made anew
            size += file.lstat().st_size
    used = _used_file(place)
    used_at = (used if used.exists() else place).stat().st_mtime
    with _alone(place) as is_alone:
        return KeptCopy(place, size, used_at, not is_alone)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[bool]:
    """Gives whether nobody uses a copy; nobody begins to before the end of the block."""
    with _used_file(place).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _remove(place: Path) -> bool:
    with _alone(place) as is_alone:
        if is_alone:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()
            for suffix in (_USED, ".lock"):
                place.with_name(f"{place.name}{suffix}").unlink(missing_ok=True)
        return is_alone


def _used_file(place: Path) -> Path:
    return place.with_name(f"{place.name}{_USED}")
