"""``labels`` on the CPU."""

from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.labels import LabelsOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import read_labels

_MOST = 1 << 24


class Labels(FlowUnit):
    """Looks up the names of classes; the lowest class wins among equal scores."""

    def open(self, config: LabelsOptions) -> None:
        """Reads the labels.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file has no names.
        """
        self._labels = read_labels(config.path)
        if not self._labels:
            raise ValueError(f"labels file {config.path}: got no names; expected a name a line")
        self._is_of_scores = config.of == "scores"

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(self._names)

    def _names(self, buffer: Buffer) -> Any:
        numbers = _numbers(buffer.data)
        if self._is_of_scores:
            return self._named(self._best(numbers).tolist())
        if numbers.size and numbers.dtype.kind not in "ui":
            raise ValueError(
                f"in_data: got {numbers.dtype} {numbers.shape}; expected whole numbers, or "
                "of=scores for scores"
            )
        self._check_range(numbers)
        return self._named(numbers.tolist())

    def _named(self, index: Any) -> Any:
        return list(map(self._named, index)) if isinstance(index, list) else self._labels[index]

    def _check_range(self, numbers: npt.NDArray[Any]) -> None:
        if not numbers.size:
            return
        for index in (int(numbers.min()), int(numbers.max())):
            if not 0 <= index < len(self._labels):
                raise ValueError(
                    f"in_data: got class {index} for {len(self._labels)} labels; expected 0 to "
                    f"{len(self._labels) - 1}"
                )

    def _best(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        if not scores.ndim or scores.shape[-1] != len(self._labels):
            raise ValueError(
                f"in_data: got scores {scores.shape} for {len(self._labels)} labels; expected "
                f"(..., {len(self._labels)})"
            )
        best = scores.max(axis=-1)  # a NaN among the scores makes the maximum NaN
        if not np.isfinite(best).all():
            raise ValueError(
                f"in_data: got {best[~np.isfinite(best)].flat[0]} as the best of the scores"
            )
        return np.asarray(scores.argmax(axis=-1))


def _numbers(data: Any) -> npt.NDArray[Any]:
    found = type(data).__name__
    if isinstance(data, int | np.generic | np.ndarray | list | tuple):
        try:
            array = np.asarray(data)
        except (ValueError, OverflowError):  # lists of unequal lengths
            found = f"a {found} of unequal lengths"
        else:
            if array.dtype.kind in "uif" and array.size <= _MOST:
                return array
            found = f"{array.dtype} {array.shape}"
    raise ValueError(f"in_data: got {found}; expected numbers, at most {_MOST}")
