"""``pixelate`` as a function."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import modelflow

GRAPH = Path(__file__).with_name("graph.toml")


@modelflow.flowunit(outputs=("out_image",))
def pixelate(in_image: npt.NDArray[Any], *, block: int = 16) -> npt.NDArray[Any]:
    """Coarsens an image into blocks of one colour.

    Args:
        in_image: uint8, (H, W) or (H, W, C).
        block: Side of a block in pixels.

    Returns:
        As the input.
    """
    if block < 1:
        message = f"block: got {block}; expected 1 or more"
        raise ValueError(message)
    height, width = in_image.shape[:2]
    corners = in_image[::block, ::block]
    return np.repeat(np.repeat(corners, block, 0), block, 1)[:height, :width]


def main(source: str, target: str) -> None:
    """Reads an image file and writes its coarsened form."""
    with modelflow.Flow(GRAPH, units=[pixelate]) as flow:
        answer = flow.infer(Path(source).read_bytes(), timeout=60)
    Path(target).write_bytes(answer.data)


if __name__ == "__main__":
    main(*sys.argv[1:3])
