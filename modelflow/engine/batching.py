"""Cuts the input of an inference unit into engine calls, and the outputs into items."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from modelflow.signals import new_lock


def copy_shared(output: Any, others: list[Any], is_kept: bool) -> Any:
    """Returns an output, copied if needed, that shares no memory with ``others`` or the model.

    The result is added to ``others``.

    Args:
        output: An output of the model.
        others: The inputs, and the outputs that were handled before.
        is_kept: Whether the model may keep its outputs; see `LoadedModel.keeps_outputs`.
    """
    # A model may return an input unchanged, or return one result on two ports. A consumer of one
    # port would then see the writes of a consumer of the other. The next call may overwrite memory
    # that the model still refers to.
    if isinstance(output, np.ndarray):
        if is_kept or any(np.may_share_memory(output, other) for other in others):
            output = output.copy()
    elif any(output is other for other in others):
        output = output.clone()
    others.append(output)
    return output


def items_of(output: Any) -> Sequence[Any]:
    """Returns the rows of an output as views."""
    if not isinstance(output, np.ndarray):
        rows: Sequence[Any] = output.unbind(0)
        return rows
    # Iterating over a one-dimensional array gives scalars. Text may stay bytes, but numbers must be
    # arrays of shape ().
    if output.ndim > 1 or output.dtype == object:
        return list(output)
    return [output[row, ...] for row in range(len(output))]


class CallSizes:
    """The batch sizes for the calls of an engine.

    Attributes:
        fixed: The only size that the model takes. None if it takes any size.
        allowed: The sizes to pad a batch to, ascending. Empty if any size is allowed.
    """

    def __init__(
        self,
        fixed: int | None,
        allowed: Sequence[int],
        batch_size: int,
        batch_range: tuple[int, int | None] = (1, None),
    ) -> None:
        """Derives the sizes from the limits of the model and of the node.

        Args:
            fixed: The only size that the model takes. None if it takes any size.
            allowed: The sizes that the node allows. Empty if it allows any size.
            batch_size: The batch size of the node.
            batch_range: The smallest and the largest size that the model takes.
        """
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
        """Returns the sizes to warm up: every possible size if the possible sizes are few."""
        if self.fixed is not None:
            return [self.fixed]
        return list(self.allowed) or sorted({self._least, max(self._least, self._batch_size)})

    def trials(self) -> list[int]:
        """Returns two sizes that show which outputs follow the batch, or only the fixed size."""
        if self.fixed is not None:
            return [self.fixed]
        few = self.allowed[-2:]
        if len(few) == 2:
            return list(few)
        return [self._least] if self._largest == self._least else [self._least, self._least + 1]


class BatchFigures:
    """Counters of an inference unit: call sizes, padding, cuts by shape. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._sizes: Counter[int] = Counter()
        self._padding = 0
        self._shapes = 0

    def call(self, rows: int, size: int) -> None:
        """Adds a call of the engine with ``rows`` rows, filled up to ``size``."""
        with self._lock:
            self._sizes[rows] += 1
            self._padding += size - rows

    def split(self, groups: int) -> None:
        """Counts the cuts of a batch whose items differ in shape or in shared values."""
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
    """Groups rows by their keys, and keeps the order of the rows in each group."""
    groups: dict[Hashable, list[int]] = {}
    for row, key in keys.items():
        groups.setdefault(key, []).append(row)
    return list(groups.values())
