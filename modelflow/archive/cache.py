"""What is kept of archives on this machine: those that were sent, and what they were unpacked into.

A process that uses a copy holds a lock for as long as it runs (`hold`), which the system gives back
when it ends, however it does; such a copy is not removed.
"""

import contextlib
import errno
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
from modelflow.quantities import bytes_of

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
    """Keeps a copy from being removed until this process ends; it need not be there yet.

    May be called again. Where nothing can be written nobody can remove it, either.

    Raises:
        OSError: its lock cannot be taken: there is no room, say.
    """
    with _lock:
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
            else:  # it was removed while this waited
                os.close(file)


def _open_lock(place: Path) -> int:
    return os.open(_find_used_file(place), os.O_RDWR | os.O_CREAT, 0o600)


def _is_there(file: int, place: Path) -> bool:
    """Tells whether an open file of a copy is the one that others would open."""
    try:
        return os.path.samestat(os.fstat(file), _find_used_file(place).stat())
    except FileNotFoundError:
        return False


def list_copies(folder: Path) -> list[KeptCopy]:
    """Returns the copies below a folder, that which was used last first.

    Args:
        folder: See `modelflow.archive.unpack.cache_folder`; it need not be there.
    """
    # What is being made has another suffix.
    found = map(_look_at, (one for one in folder.glob("*/*") if one.suffix in ("", SUFFIX)))
    return sorted(filter(None, found), key=lambda copy: copy.used_at, reverse=True)


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
            raise ConfigError(f"{_SIZE}: got {given!r}; expected a size such as 10GiB")
        prune(folder, most_bytes=int(most), now=time.time())


def _look_at(place: Path) -> KeptCopy | None:
    """Returns what is known of a copy; None: it is gone."""
    files = [Path(folder, name) for folder, _, names in os.walk(place) for name in names] or [place]
    size = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # it is just being made anew, or removed
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
    """Gives whether nobody uses a copy; nobody begins to before the end of the block."""
    try:
        file = _open_lock(place)
    except OSError:  # what cannot be written to cannot be removed
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
