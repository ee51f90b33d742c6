"""The cache of archives on this machine: received archives, and folders of unpacked archives.

A process that uses a copy holds a lock until the process ends (`hold`). The system releases the
lock even after a crash. A locked copy is not removed.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelflow.archive.suffix import SUFFIX
from modelflow.errors import ConfigError
from modelflow.quantities import bytes_of

_SIZE = "MODELFLOW_CACHE_SIZE"
_USED = ".used"
_held: dict[Path, int] = {}
_uses: Counter[Path] = Counter()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy in the cache.

    Attributes:
        path: The copy's folder or file.
        size: The total size of its files in bytes.
        used_at: The time of the latest start of a use, in seconds as `time.time`.
        is_used: Whether a process uses the copy.
    """

    path: Path
    size: int
    used_at: float
    is_used: bool


def hold(place: Path) -> None:
    """Protects a copy from removal; the copy need not exist yet.

    The protection ends with this process, or after as many calls of `release`. If the folder is
    read-only, no lock is needed, because no process can remove the copy.

    Raises:
        OSError: The lock cannot be taken, for example because the disk is full.
    """
    with _lock:
        _uses[place] += 1
        while place not in _held:
            try:
                file = _open_lock(place)
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                    raise
                return
            fcntl.flock(file, fcntl.LOCK_SH)
            if _is_there(file, place):
                os.utime(file)
                _held[place] = file
            else:  # removed while this process waited
                os.close(file)


def release(place: Path) -> None:
    """Ends the protection of a copy by a call of `hold`."""
    with _lock:
        _uses[place] -= 1
        if not _uses[place]:
            del _uses[place]
            if place in _held:
                os.close(_held.pop(place))


def _open_lock(place: Path) -> int:
    return os.open(_find_used_file(place), os.O_RDWR | os.O_CREAT, 0o600)


def _is_there(file: int, place: Path) -> bool:
    """Returns True if an open lock file is still the file that others would open."""
    try:
        return os.path.samestat(os.fstat(file), _find_used_file(place).stat())
    except FileNotFoundError:
        return False


def list_copies(folder: Path, kind: str = "*") -> list[KeptCopy]:
    """Returns the copies in a folder, the most recently used first.

    Args:
        folder: See `modelflow.archive.unpack.cache_folder`. The folder need not exist.
        kind: The name of the folder in it. By default all folders count.
    """
    # Unfinished copies have another suffix.
    found = map(_look_at, (one for one in folder.glob(f"{kind}/*") if one.suffix in ("", SUFFIX)))
    return sorted(filter(None, found), key=lambda copy: copy.used_at, reverse=True)


def prune(
    folder: Path, *, most_bytes: int = 0, unused_for: float = 0.0, now: float, kind: str = "*"
) -> list[KeptCopy]:
    """Removes the least recently used copies until the others fit.

    Args:
        folder: The folder of the copies.
        most_bytes: The most bytes of all remaining copies.
        unused_for: Only copies whose latest use began at least so many seconds ago are removed.
        now: The time, as `time.time`.
        kind: As for `list_copies`.

    Returns:
        The removed copies. A copy that a process uses is never removed.
    """
    copies = list_copies(folder, kind)
    left = sum(copy.size for copy in copies)
    removed = []
    for copy in reversed(copies):
        is_due = left > most_bytes and now - copy.used_at >= unused_for
        if is_due and _remove(copy.path):
            removed.append(copy)
            left -= copy.size
    return removed


def keep_size(folder: Path) -> None:
    """Removes the least recently used copies beyond $MODELFLOW_CACHE_SIZE, if that is set.

    Raises:
        ConfigError: The variable is no size.
    """
    given = os.environ.get(_SIZE)
    if given:
        most = bytes_of(given)
        if most is None:
            raise ConfigError(f"{_SIZE}: got {given!r}; expected a size such as 10GiB")
        prune(folder, most_bytes=int(most), now=time.time())


def _look_at(place: Path) -> KeptCopy | None:
    """Returns the state of a copy, or None if the copy was removed."""
    files = [Path(folder, name) for folder, _, names in os.walk(place) for name in names] or [place]
    size = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # the copy is just being replaced or removed
            size += file.lstat().st_size
    used = _find_used_file(place)
    try:
        used_at = (used if used.exists() else place).stat().st_mtime
    except FileNotFoundError:
        return None
    with _alone(place) as is_alone:
        return KeptCopy(place, size, used_at, not is_alone)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[bool]:
    """Yields True if no process uses a copy; none can start to before the end of the block."""
    try:
        file = _open_lock(place)
    except OSError:  # a copy in a read-only folder cannot be removed
        yield False
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield _is_there(file, place)
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


def _remove(place: Path) -> bool:
    with _alone(place) as is_alone:
        if is_alone:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            _find_used_file(place).unlink()
        return is_alone


def _find_used_file(place: Path) -> Path:
    return place.with_name(f"{place.name}{_USED}")
