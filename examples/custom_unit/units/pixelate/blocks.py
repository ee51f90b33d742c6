"""The computation of the unit, a module that the unit imports by its name."""

from typing import Any

import numpy as np
import numpy.typing as npt


def coarsened(image: npt.NDArray[Any], block: int) -> npt.NDArray[Any]:
    """Returns ``image`` in blocks of ``block`` pixels with the colour of their upper left pixel."""
    height, width = image.shape[:2]
    corners = image[::block, ::block]
    return np.repeat(np.repeat(corners, block, 0), block, 1)[:height, :width]
