"""What is known of a tensor before there is one: its name, its type, its shape.

A model's input ``TensorSpec("image", float32, (None, 224, 224, 3))`` takes batches of any length;
`TensorSpec.item_shape` is that of one item, ``(224, 224, 3)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TensorSpec", "has_shape", "shape_text"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: The port's name, as the unit calls it.
        dtype: The element type; ``object`` for text (items are ``bytes``).
        shape: The shape, None for an axis that is free; None as a whole where the model does not
            say how many axes there are.
        is_batched: Axis 0 is the batch. False: there is no batch axis; the array is one request's
            value (an input) or one item's (an output). None: the model does not say.
        is_shape_checked: Values of another shape are refused. False: the shape only describes what
            is usual, and the model itself judges the values.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None = None
    is_batched: bool | None = None
    is_shape_checked: bool = True

    @property
    def item_shape(self) -> tuple[int | None, ...] | None:
        """The shape of one item: without axis 0, where that is or may be the batch."""
        if self.shape is None or self.is_batched is False:
            return self.shape
        return self.shape[1:]

    @property
    def batch_size(self) -> int | None:
        """The length of axis 0 where the model fixes it; None where it is free or not known."""
        return self.shape[0] if self.shape and self.is_batched is not False else None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name} ({self.dtype.name})"
        return f"{self.name} ({self.dtype.name} {shape_text(self.shape)})"


def has_shape(lengths: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Tells whether lengths are those of a shape, whose free axes (None) take any."""
    return len(lengths) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(lengths, shape, strict=True)
    )


def shape_text(shape: Sequence[int | None]) -> str:
    """Returns a shape as it stands in messages: ``(?, 224, 224, 3)``."""
    inner = ", ".join("?" if extent is None else str(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
