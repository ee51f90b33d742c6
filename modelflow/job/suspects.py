"""The journal of a job: the inputs in flight, in memory that outlives the process.

An item is entered before it is sent, and leaves when its results are written. Both happen in the
order of the inputs. Two counters and a ring of the names between them are therefore enough. The
file is memory-mapped. An entry needs no system call, and stays in the file however the process
dies. A job that ends normally removes its journal. A journal that exists is from a process that
died.
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
"""An input: the path of the file for each input of the graph."""


# More than the items of a session that a flow can hold between sender and writer.
_SLOTS = 1 << 14
_MAGIC = b"MFJOB001"
_HEAD = struct.Struct("<8s3Q")  # format, run, number of entered items, number of items that left
_COUNT = struct.Struct("<Q")
_ENTERED, _LEFT = 16, 24
_NAME = 8


class Journal:
    """The journal of one run; the sending thread calls `enter`, the writing thread `leave`."""

    def __init__(self, path: Path, run: int) -> None:
        """Makes the journal.

        Args:
            path: The path of the journal.
            run: The number of the run.

        Raises:
            ConfigError: The journal cannot be written.
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
        # The name is written before the counter. After a death between both, the name is ignored.
        self._map[slot : slot + _NAME] = _name(key)
        self._entered += 1
        _COUNT.pack_into(self._map, _ENTERED, self._entered)

    def leave(self) -> None:
        """Notes that the results of the oldest entered item are written."""
        self._left += 1
        _COUNT.pack_into(self._map, _LEFT, self._left)

    def close(self) -> None:
        """Removes the journal, because the run has ended normally."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def suspects(path: Path, after: int, keys: Sequence[Key]) -> tuple[int, list[Key]]:
    """Returns the number of the run that died, and its items in flight.

    Args:
        path: The path of the journal, which does not exist after a normal end.
        after: The last run whose suspects are known.
        keys: The items to compare with the journal.

    Raises:
        ConfigError: The file is no journal, or cannot be read.
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
    """Returns an input with absolute paths: ``a.jpg`` and ``./a.jpg`` are ``/photos/a.jpg``."""
    return tuple(map(os.path.abspath, key))
