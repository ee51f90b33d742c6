"""``pixelate`` as a class."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import modelflow

GRAPH = Path(__file__).with_name("graph.toml")


@dataclass(frozen=True)
class PixelateOptions:
    """The options of ``pixelate``. An invalid option is found before anything runs."""

    block: int = modelflow.option(16, help="Side of a block in pixels.", minimum=1)


class Pixelate(modelflow.FlowUnit):
    """Coarsens images, and keeps the index arrays of the last image size.

    No lock is needed, because every worker thread has an instance of its own.
    """

    SPEC = modelflow.FlowUnitSpec(
        name="pixelate",
        devices={"cpu": f"{__name__}:Pixelate"},
        inputs=(modelflow.Port("in_image", "uint8, (H, W) or (H, W, C)", dtype="uint8"),),
        outputs=(modelflow.Port("out_image", "as the input", dtype="uint8"),),
        options=PixelateOptions,
        description="Coarsens an image into blocks of one colour.",
        group="Image",
    )

    def open(self, config: PixelateOptions) -> None:
        """Stores the options."""
        self._block = config.block
        self._size = (0, 0)

    def process(self, ctx: modelflow.Context) -> None:
        """Emits one image for each input, in order."""
        ctx.emit_each(self._pixelate)

    def _pixelate(self, image: modelflow.Buffer) -> npt.NDArray[Any]:
        height, width = image.data.shape[:2]
        if (height, width) != self._size:
            self._size = (height, width)
            self._rows = np.arange(height) // self._block * self._block
            self._columns = np.arange(width) // self._block * self._block
        coarse: npt.NDArray[Any] = image.data[self._rows[:, None], self._columns]
        return coarse


def main(source: str, target: str) -> None:
    """Reads an image file and writes its coarsened form."""
    with modelflow.Flow(GRAPH, units=[Pixelate]) as flow:
        answer = flow.infer(Path(source).read_bytes(), timeout=60)
    Path(target).write_bytes(answer.data)


if __name__ == "__main__":
    main(*sys.argv[1:3])
