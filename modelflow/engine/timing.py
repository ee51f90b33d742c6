"""The time that a model takes for batches of several sizes."""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import memory_of
from modelflow.engine.batching import CallSizes
from modelflow.engine.engine import LoadedModel, one_sentence
from modelflow.engine.servable import Servable
from modelflow.engine.staging import InputPort
from modelflow.errors import EngineError, ModelflowError, find_line
from modelflow.wire.tensor import TensorSpec, has_shape

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BatchTime:
    """The run time of batches of one size.

    Attributes:
        size: The number of items in a batch.
        seconds: The median time of the calls.
        calls: The number of measured calls.
    """

    size: int
    seconds: float
    calls: int

    @property
    def items_per_second(self) -> float:
        """Items per second, one batch after the other."""
        return self.size / self.seconds


def item_shapes(inputs: Sequence[TensorSpec], given: Mapping[str, Shape]) -> dict[str, Shape]:
    """Returns the shape of one item of each input: the model's own, or the given shape.

    Raises:
        EngineError: A shape is open and not given, a given shape does not fit, an input is text, or
            a name is no input.
    """
    known = {tensor.name: tensor for tensor in inputs}
    for name in given:
        if name not in known:
            raise EngineError(
                f"shape of {name!r}: there is no such input; inputs: {', '.join(known)}"
            )
    shapes = {}
    for name, tensor in known.items():
        wanted = tensor.item_shape
        shape = given.get(name, wanted)
        if tensor.dtype.hasobject:
            raise EngineError(
                f"input {tensor}: text; only models of numbers can be timed with zeros"
            )
        if shape is None or None in shape:
            raise EngineError(f"input {tensor}: its shape is open; give one for a single item")
        lengths = tuple(extent for extent in shape if extent is not None)
        if wanted is not None and not has_shape(lengths, wanted):
            raise EngineError(
                f"input {tensor}: got the shape {shape} for one item, which does not fit"
            )
        shapes[name] = lengths
    return shapes


def make_servable(model: LoadedModel, shapes: Mapping[str, Shape]) -> Servable:
    """Wraps a model for calls with one item at a time or with batches (`Servable.axes`).

    Args:
        model: The model. It runs a few times if its file does not state the batch axes.
        shapes: The shape of one item of each input.
    """
    ports = tuple(
        InputPort("model", tensor, False, model.memory, model.text_type) for tensor in model.inputs
    )
    sizes = CallSizes(model.fixed_batch, (), 1, model.batch_range)
    servable = Servable("model", 0, model, ports, sizes)
    with servable.memory.running(model.memory):
        servable.find_axes(_zeros(model, shapes))
    return servable


def batch_times(
    servable: Servable, shapes: Mapping[str, Shape], sizes: Sequence[int], seconds: float
) -> Iterator[BatchTime]:
    """Measures batches of zeros, after one call that is not counted.

    Args:
        servable: A result of `make_servable`.
        shapes: The shape of one item of each input.
        sizes: The batch sizes. A model with a fixed batch is measured with its own size only.
        seconds: The time to measure each size, with at least three calls.

    Raises:
        EngineError: The model fails with zeros.
    """
    model, memory = servable.model, servable.memory
    zeros = _zeros(model, shapes)
    for size in sorted({servable.sizes.size(servable.sizes.step(size)) for size in sizes}):
        with memory.running(model.memory):
            staged = {
                port.name: port.gather([zeros[port.name]] * size, size) for port in servable.ports
            }
            times: list[float] = []
            _try(model, staged, size)
            end = time.perf_counter() + seconds
            while len(times) < 3 or time.perf_counter() < end:
                start = time.perf_counter()
                _run(model, staged)
                times.append(time.perf_counter() - start)
        yield BatchTime(size, statistics.median(times), len(times))


def _zeros(model: LoadedModel, shapes: Mapping[str, Shape]) -> dict[str, npt.NDArray[Any]]:
    return {t.name: np.zeros(shapes[t.name], t.dtype) for t in model.inputs}


def _try(model: LoadedModel, staged: Mapping[str, Any], size: int) -> None:
    try:
        _run(model, staged)
    except ModelflowError:
        raise
    except Exception as error:
        line = find_line(error)
        raise EngineError(
            f"a batch of {size} with zeros failed: {type(error).__name__}: "
            f"{one_sentence(str(error))}{f' ({line})' if line else ''}"
        ) from error


def _run(model: LoadedModel, staged: Mapping[str, Any]) -> None:
    outputs = model.run(staged)
    memory = memory_of(model.memory.kind)
    memory.download(list(outputs.values()))  # waits for a device that may still be at work
