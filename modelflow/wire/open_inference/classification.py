"""The extension ``classification``: the best classes in place of a tensor of scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import Problem

__all__ = ["classified"]


def classified(
    scores: npt.NDArray[Any], classes: int, labels: Sequence[str], where: str
) -> npt.NDArray[Any]:
    """Returns the best classes of each item, the best first.

    Args:
        scores: (items, ...) of numbers; all behind axis 0 are the classes of one item.
        classes: How many to give; as many as there are, where there are fewer.
        labels: The classes' names, as far as they are known.
        where: What is classified, for messages.

    Returns:
        (items, classes) of bytes: ``SCORE:INDEX`` or ``SCORE:INDEX:LABEL``.

    Raises:
        Problem: it is no tensor of scores.
    """
    if scores.dtype.kind not in "iuf" or not scores.ndim:
        message = f"{where}: {scores.dtype.name} of {scores.ndim} axes; classes need rows of scores"
        raise Problem(message)
    width = scores[:1].size if len(scores) else 0
    rows = scores.reshape(len(scores), width)
    taken = min(classes, width)
    keys = np.where(np.isnan(rows), -np.inf, rows) if rows.dtype.kind == "f" else rows
    # From behind, and back: of two classes with one score the first then comes first.
    best = width - 1 - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :taken]
    answer = np.empty((len(scores), taken), np.object_)
    for row, indices in enumerate(best.tolist()):
        answer[row] = [_entry(rows[row, index], index, labels) for index in indices]
    return answer


def _entry(score: Any, index: int, labels: Sequence[str]) -> bytes:
    number = f"{score:f}" if isinstance(score, np.floating) else str(score)
    label = f":{labels[index]}" if index < len(labels) else ""
    return f"{number}:{index}{label}".encode()
