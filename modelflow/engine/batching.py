"""How an inference unit cuts its input into calls of the engine, and outputs into items."""

import sys
import threading
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def copy_shared(output: Any, others: list[Any]) -> Any:
    """Returns an output that shares no memory with ``others`` or with the model; adds it to them.

    Args:
        output: The caller gives it away: a reference that it keeps would look like the model's.
        others: The inputs, and the outputs before.
    """
    # A model may hand an input through, or one result on two ports. The consumers of one would
    # then see what those of the other write. What it still refers to, its next call may overwrite.
    if isinstance(output, np.ndarray):
        if _is_held(output) or any(np.may_share_memory(output, other) for other in others):
            output = output.copy()
    elif any(output is other for other in others):
        output = output.clone()
    others.append(output)
    return output


def items_of(output: Any) -> Sequence[Any]:
    """Returns the rows of an output: views."""
    if not isinstance(output, np.ndarray):
        rows: Sequence[Any] = output.unbind(0)
        return rows
    # Iterating one axis would give scalars; text stays bytes, numbers become arrays of shape ().
    if output.ndim > 1 or output.dtype == object:
        return list(output)
    return [output[row, ...] for row in range(len(output))]


def _is_held(output: npt.NDArray[Any]) -> bool:
    """Tells whether the model still refers to an output, or to what it is a view of."""
    if sys.getrefcount(output) > _OF_OUTPUT:
        return True
    return output.base is not None and sys.getrefcount(output.base) > _OF_BASE


def _calibrate(output: npt.NDArray[Any]) -> tuple[int, int]:
    """Counts the references to an array that nobody else holds, and to its base."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1, -1  # such counts say nothing: every output is copied

    def count(output: npt.NDArray[Any]) -> tuple[int, int]:  # as deep in calls as `_is_held`
        return sys.getrefcount(output), sys.getrefcount(output.base)

    return count(output)


_OF_OUTPUT, _OF_BASE = _calibrate(np.empty(2)[:1])


class CallSizes:
    """The sizes of batch that an engine is called with.

    Attributes:
        fixed: The only size that the model takes; None: any.
        allowed: The sizes to fill up to, rising; empty: any.
    """

    def __init__(
        self,
        fixed: int | None,
        allowed: Sequence[int],
        batch_size: int,
        batch_range: tuple[int, int | None] = (1, None),
    ) -> None:
        """Takes the model's own size, those that the node allows, and the node's batch size."""
        self._least, most = batch_range
        self.fixed = fixed
        fitting = (size for size in allowed if self._least <= size <= (most or size))
        self.allowed = tuple(sorted(fitting)) if fixed is None else ()
        self._largest = fixed or (self.allowed[-1] if self.allowed else most)
        self._batch_size = min(batch_size, most or batch_size)

    def step(self, rows: int) -> int:
        """Returns how many of ``rows`` rows go into the next call."""
        return min(rows, self._largest or rows)

    def size(self, rows: int) -> int:
        """Returns the size of the call that gets ``rows`` rows; the rest is padding."""
        if self.fixed is not None:
            return self.fixed
        return next((size for size in self.allowed if size >= rows), max(rows, self._least))

    def all(self) -> list[int]:
        """Returns the sizes to warm up: all that there can be where they are few."""
        if self.fixed is not None:
            return [self.fixed]
        return list(self.allowed) or sorted({self._least, max(self._least, self._batch_size)})

    def trials(self) -> list[int]:
        """Returns two sizes that show which outputs follow the batch; a fixed one alone."""
        if self.fixed is not None:
            return [self.fixed]
        few = self.allowed[-2:]
        if len(few) == 2:
            return list(few)
        return [self._least] if self._largest == self._least else [self._least, self._least + 1]


class BatchFigures:
    """What an inference unit counts. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: Counter[int] = Counter()
        self._padding = 0
        self._shapes = 0

    def call(self, rows: int, size: int) -> None:
        """Adds a call of the engine with ``rows`` rows, filled up to ``size``."""
        with self._lock:
            self._sizes[rows] += 1
            self._padding += size - rows

    def split(self, groups: int) -> None:
        """Adds a batch that was cut because its shapes (or versions) differ."""
        with self._lock:
            self._shapes += groups - 1

    def read(self) -> dict[str, dict[Any, int]]:
        """Returns ``engine_calls`` (rows -> calls) and ``batching`` (padding, cuts by shape)."""
        with self._lock:
            return {
                "engine_calls": dict(sorted(self._sizes.items())),
                "batching": {"padding": self._padding, "another_shape": self._shapes},
            }


def group_rows(keys: Mapping[int, Hashable]) -> list[list[int]]:
    """Returns the rows by their keys, each group in order."""
    groups: dict[Hashable, list[int]] = {}
    for row, key in keys.items():
        groups.setdefault(key, []).append(row)
    return list(groups.values())
