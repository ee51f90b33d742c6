"""The unit of mean.toml."""

import numpy as np
import numpy.typing as npt

import modelflow

Row = npt.NDArray[np.float32]


@modelflow.flowunit(batched=True)
def mean(rows: list[Row]) -> list[float]:
    """Returns the means of rows, calculated at once if all rows have one length."""
    if len({row.shape for row in rows}) == 1:
        return list(np.stack(rows).mean(axis=1))
    return [row.mean() for row in rows]
