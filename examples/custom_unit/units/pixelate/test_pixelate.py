"""Tests of the flow unit pixelate."""

from pathlib import Path

import numpy as np

from modelflow.testing import read_unit, run_unit

SPEC = read_unit(Path(__file__).with_name("pixelate.toml"))


def test_pixelate_gives_blocks_of_one_colour() -> None:
    image = np.arange(16, dtype=np.uint8).reshape(4, 4)
    (coarse,) = run_unit(SPEC, {"in_image": [image]}, block=2)["out_image"]
    expected = [[0, 0, 2, 2], [0, 0, 2, 2], [8, 8, 10, 10], [8, 8, 10, 10]]
    np.testing.assert_array_equal(coarse.data, expected)
