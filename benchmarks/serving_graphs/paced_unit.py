"""A unit that pauses for each batch, and records the age of its rows."""

import functools
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

import modelflow

__all__ = ["noted", "paced", "room_for_notes"]


@modelflow.flowunit(batched=True)
def paced(rows: list[float], *, pause_ms: float = 5.0, notes: str = "") -> list[float]:
    """Returns the age of each row in seconds; a row is its send time on the monotonic clock.

    Args:
        rows: The send times.
        pause_ms: The time of a batch.
        notes: A file of `room_for_notes`. Empty: none.
    """
    ages = time.monotonic() - np.asarray(rows, np.float64)
    if notes:
        room = _room(notes)
        count = int(room[0])
        room[count + 1 : count + 1 + len(ages)] = ages
        room[0] += len(ages)
    time.sleep(pause_ms / 1e3)
    return ages.tolist()


@functools.cache
def _room(path: str) -> npt.NDArray[np.float64]:
    """The notes in memory, where they are written without a call that others could run in."""
    return np.memmap(path, np.float64, "r+")


def room_for_notes(path: Path, rows: int) -> None:
    """Writes a file in which the unit notes rows, at most so many; one unit, one thread."""
    np.zeros(rows + 1).tofile(path)


def noted(path: Path) -> npt.NDArray[np.float64]:
    """Returns the age of each row that has come, in seconds."""
    room = np.fromfile(path)
    return room[1 : int(room[0]) + 1]
