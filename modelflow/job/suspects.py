"""What a job has under way, in memory that outlives the process: who is suspected of its death.

An item is entered before it is sent and left when its results are there; both in the input's order,
so that two counters and a ring of the names between them say all. The file is mapped: an entry is
some bytes of memory, no call of the system, and whatever kills the process leaves them as they are.
A job that ends in order takes its journal away; one that is found is of a process that died.
"""

import hashlib
import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from modelflow.errors import ConfigError, explain_os_error
from modelflow.files.whole_file import write_whole

Key = tuple[str, ...]
"""An input: the file for each input of the graph."""


# More than a flow lets a session have between its submitter and its reader.
_SLOTS = 1 << 14
_MAGIC = b"MFJOB001"
_HEAD = struct.Struct("<8s3Q")  # the form; the run; entered; left
_COUNT = struct.Struct("<Q")
_ENTERED, _LEFT = 16, 24
_NAME = 8


class Journal:
    """The journal of one run. `enter` is for the thread that sends, `leave` for who writes."""

    def __init__(self, path: Path, run: int) -> None:
        """Begins it.

        Args:
            path: Where it is.
            run: The number of the run.

        Raises:
            ConfigError: it cannot be written.
        """
        self._path = path
        self._entered = self._left = 0
        with explain_os_error(f"--resume: {path} cannot be written"):
            write_whole(path, _HEAD.pack(_MAGIC, run, 0, 0) + bytes(_SLOTS * _NAME))
            with path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), 0)

    def enter(self, key: Key) -> None:
        """Notes that an item is about to be sent."""
        slot = _HEAD.size + self._entered % _SLOTS * _NAME
        self._map[slot : slot + _NAME] = _name(key)  # before the counter says that it is there
        self._entered += 1
        _COUNT.pack_into(self._map, _ENTERED, self._entered)

    def leave(self) -> None:
        """Notes that the results of the item that was entered first are there."""
        self._left += 1
        _COUNT.pack_into(self._map, _LEFT, self._left)

    def close(self) -> None:
        """Takes it away: whatever was under way has been given up in order."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def suspects(path: Path, after: int, keys: Sequence[Key]) -> tuple[int, list[Key]]:
    """Returns the run that died, and the items that it had under way.

    Args:
        path: Its journal; none is there where a job has ended in order.
        after: The last run whose suspects are known.
        keys: The items that may be meant.

    Raises:
        ConfigError: it is no journal, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_HEAD.size + _SLOTS * _NAME + 1)
    except FileNotFoundError:
        return after, []
    except OSError as error:
        raise ConfigError(f"--resume: {path} cannot be read: {error.strerror or error}") from error
    if len(raw) != _HEAD.size + _SLOTS * _NAME or not raw.startswith(_MAGIC):
        raise ConfigError(f"--resume: {path} is no journal of a job; remove it")
    _, run, entered, left = _HEAD.unpack_from(raw)
    if run <= after:
        return after, []
    numbers = range(max(left, entered - _SLOTS), entered)
    slots = (_HEAD.size + number % _SLOTS * _NAME for number in numbers)
    names = {raw[slot : slot + _NAME] for slot in slots}
    return run, [key for key in keys if _name(key) in names]


def _name(key: Key) -> bytes:
    named = "\0".join(absolute(key))
    return hashlib.blake2b(named.encode(errors="surrogateescape"), digest_size=8).digest()


def absolute(key: Iterable[str]) -> Key:
    """Returns an input as it is known here: ``a.jpg`` is ``./a.jpg`` and ``/photos/a.jpg``."""
    return tuple(map(os.path.abspath, key))
