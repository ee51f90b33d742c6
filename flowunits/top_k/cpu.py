"""``top_k`` on the CPU."""

from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.top_k import TopKOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import read_labels


class TopK(FlowUnit):
    """Sorts by falling score; the lower class number first among equals."""

    def open(self, config: TopKOptions) -> None:
        """Reads the labels."""
        self._k, self._softmax = config.k, config.softmax
        self._labels = read_labels(config.labels) if config.labels else None

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(self._best)

    def _best(self, buffer: Buffer) -> list[dict[str, Any]]:
        scores = _scores(buffer.data)
        labels = self._labels
        if labels is not None and len(labels) != len(scores):
            raise ValueError(
                f"in_data: got {len(scores)} scores for {len(labels)} labels; expected one label "
                "a score"
            )
        if self._softmax:
            powers = np.exp(scores - scores.max())
            scores = powers / powers.sum()
        # Sorting 1000 scores takes fifty times as long as to find the best.
        is_one = self._k == 1
        best = [scores.argmax()] if is_one else np.argsort(-scores, kind="stable")[: self._k]
        return [
            {
                "class": int(index) if labels is None else labels[index],
                "index": int(index),
                "score": float(scores[index]),
            }
            for index in best
        ]


def _scores(data: Any) -> npt.NDArray[np.floating[Any]]:
    array = data if isinstance(data, np.ndarray | list | tuple) else None
    scores = np.asarray(array)
    if array is None or scores.dtype.kind not in "buif":
        raise ValueError(f"in_data: got {type(data).__name__}; expected an array of scores")
    if not scores.size or scores.size != max(scores.shape, default=1):
        raise ValueError(
            f"in_data: got an array of shape {scores.shape}; expected scores (classes,)"
        )
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if not np.isfinite(scores.max()):  # a NaN among the scores makes the maximum NaN
        raise ValueError(f"in_data: got {scores.max()} as the best of {scores.size} scores")
    return scores.reshape(-1)
