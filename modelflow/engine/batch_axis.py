"""Which outputs of a model have a value for each item: those whose axis 0 is the batch.

The model file says it (a symbolic name, a fixed length), or calls with batches of different sizes
show it. The length of one result never decides: of a detector that finds two boxes in a batch of
two images, both may be in the first image.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.tensor import TensorSpec

__all__ = ["BatchAxes", "find_batch_axes", "state_batch_axes"]

Items = Mapping[str, Any]
# Runs the model on a batch of equal items: an item of each input, the size -> the outputs.
Call = Callable[[Items, int], Mapping[str, Any]]


@dataclass(frozen=True)
class BatchAxes:
    """What is known of the batch axes of a model's outputs.

    Attributes:
        outputs: The outputs; ``is_batched`` is true or false.
        reason: Why the model is called with one item at a time; empty: it is not.
        is_stated: The model file says it all.
    """

    outputs: tuple[TensorSpec, ...]
    reason: str = ""
    is_stated: bool = False

    def without(self, name: str) -> "BatchAxes":
        """Returns the same with the output ``name`` not batched: a result has shown it."""
        outputs = tuple(
            replace(output, is_batched=False) if output.name == name else output
            for output in self.outputs
        )
        return BatchAxes(outputs, _no_axis(outputs))


def state_batch_axes(outputs: Sequence[TensorSpec], fixed_batch: int | None) -> BatchAxes | None:
    """Returns what the model file says; None: it leaves an output open.

    Args:
        outputs: The outputs as the engine describes them.
        fixed_batch: The only batch size that the model takes; None: any.
    """
    stated = tuple(_state(output, fixed_batch) for output in outputs)
    if any(output.is_batched is None for output in stated):
        return None
    return BatchAxes(stated, _no_axis(stated), is_stated=True)


def find_batch_axes(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    call: Call,
    example: Items,
    sizes: Sequence[int],
) -> BatchAxes:
    """Calls a model with batches of each size, and looks which outputs follow.

    An output is batched if its axis 0 has the length of the batch in every call: of zeros, of ones,
    of minus ones. A model that refuses all of these gets the example.

    Args:
        inputs: The inputs.
        outputs: The outputs as the engine describes them.
        call: See `Call`; whatever it raises is the model's refusal of these items.
        example: An item of each input, for the shapes.
        sizes: Two batch sizes; the only one of a model that has a fixed one.

    Returns:
        The outputs with the types that came.

    Raises:
        Exception: what the model raised for the example, if it runs on nothing.
    """
    fixed = sizes[0] if len(sizes) == 1 else None
    calls: list[tuple[int, Mapping[str, Any]]] = []
    refusals: list[Exception] = []
    for item, size in _trials(inputs, example, sizes):
        if item is example and len({size for size, _ in calls}) == len(sizes):
            break  # the made-up items were enough
        try:
            calls.append((size, call(item, size)))
        except Exception as error:  # noqa: BLE001 - raised or told below
            refusals.append(error)
    if not calls:
        raise refusals[-len(sizes)]  # of the example, in the smallest batch
    ran = {size for size, _ in calls}
    is_alone = ran == {1} and fixed is None
    found = []
    for output in outputs:
        values = [(size, results[output.name]) for size, results in calls]
        is_batched = _state(output, fixed).is_batched
        if is_batched is None:
            is_shown = is_alone or len(ran) == len(sizes)
            is_batched = is_shown and all(value.ndim and len(value) == n for n, value in values)
        found.append(replace(output, is_batched=is_batched, dtype=_dtype(output, values)))
    if is_alone:
        return BatchAxes(tuple(found), f"it takes no batch of {max(sizes)}: {refusals[-1]}")
    reason = _no_axis(found)
    if reason and len(ran) < len(sizes):
        reason = f"nothing shows a batch axis, as it refuses zeros and ones: {refusals[0]}"
    return BatchAxes(tuple(found), reason)


def _state(output: TensorSpec, fixed_batch: int | None) -> TensorSpec:
    if output.is_batched is not None or output.shape is None:
        return output
    if not output.shape:
        return replace(output, is_batched=False)
    length = output.shape[0]
    return output if length is None else replace(output, is_batched=length == fixed_batch)


def _no_axis(outputs: Sequence[TensorSpec]) -> str:
    names = [repr(output.name) for output in outputs if not output.is_batched]
    if not names:
        return ""
    what = f"output {names[0]} has" if len(names) == 1 else f"outputs {', '.join(names)} have"
    return f"{what} no batch axis"


def _trials(
    inputs: Sequence[TensorSpec], example: Items, sizes: Sequence[int]
) -> Iterator[tuple[Items, int]]:
    zeros = _fill(inputs, example, 0)
    yield from ((zeros, size) for size in sizes)
    yield _fill(inputs, example, 1), sizes[-1]
    yield _fill(inputs, example, -1), sizes[-1]
    yield from ((example, size) for size in sizes)


def _fill(inputs: Sequence[TensorSpec], example: Items, value: int) -> dict[str, Any]:
    return {
        tensor.name: _make_array(tuple(example[tensor.name].shape), tensor.dtype, value)
        for tensor in inputs
    }


def _make_array(shape: tuple[int, ...], dtype: np.dtype[Any], value: int) -> npt.NDArray[Any]:
    if dtype.hasobject:
        return np.full(shape, str(value).encode() if value else b"", object)
    return np.full(shape, abs(value) if dtype.kind in "bu" else value, dtype)


def _dtype(output: TensorSpec, values: Sequence[tuple[int, Any]]) -> np.dtype[Any]:
    if values and isinstance(values[0][1], np.ndarray):
        found: np.dtype[Any] = values[0][1].dtype
        return found
    return output.dtype
