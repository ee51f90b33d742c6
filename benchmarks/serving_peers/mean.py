"""The model of all servers: the means of rows, in batches, after an optional pause."""

import os
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["BATCH", "Row", "means", "row_of"]

Row = npt.NDArray[np.float32]
BATCH = 32
_SECONDS = float(os.environ.get("MEAN_SECONDS", "0"))


def means(rows: Sequence[Row]) -> list[float]:
    """Returns the mean of each row, a float each."""
    if _SECONDS:
        time.sleep(_SECONDS)
    return [float(row.mean()) for row in rows]


def row_of(values: object) -> Row:
    """Returns a row as float32."""
    return np.asarray(values, np.float32).ravel()
