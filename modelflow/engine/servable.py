"""A model version in memory, its batch axes, and the replacement of versions.

The model file states the batch axes (a symbolic name), or calls with batches of different sizes
show them. The length of one result never decides. Example: a detector finds two boxes in a batch of
two images, but both may be in the first image. Calls with unlike items also show whether each row
depends on its own item alone. In a model that sorts its batch, for example, it does not.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import Memory, memory_of
from modelflow.engine.batching import CallSizes
from modelflow.engine.engine import LoadedModel, unit_error
from modelflow.engine.staging import InputPort
from modelflow.errors import EngineError
from modelflow.log import LEVELS
from modelflow.signals import new_lock
from modelflow.wire.tensor import TensorSpec

Items = Mapping[str, Any]
# Runs the model on a batch of items -> the outputs.
Call = Callable[[Sequence[Items]], Mapping[str, Any]]
# The largest accepted difference between a row and the same row in another batch, relative to the
# largest value. Kernels for other batch sizes add in another order, and 16-bit kernels are coarse.
_TOLERANCE = 0.02


@dataclass(frozen=True)
class BatchAxes:
    """The batch axes of a model's outputs, as far as they are known.

    Attributes:
        outputs: The outputs; ``is_batched`` is true or false.
        reason: The reason for calling the model with one item at a time. Empty if it takes batches.
        is_stated: True if the model file states all of this.
    """

    outputs: tuple[TensorSpec, ...]
    reason: str = ""
    is_stated: bool = False


def state_batch_axes(outputs: Sequence[TensorSpec], fixed_batch: int | None) -> BatchAxes | None:
    """Returns the batch axes that the model file states, or None if the file leaves an output open.

    Args:
        outputs: The outputs as the engine describes them.
        fixed_batch: The only batch size that the model takes. None if it takes any size.
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
    """Calls a model with batches of each size to find the outputs that follow the batch.

    An output is batched if its axis 0 has the length of the batch in every call, and no other axis
    changes. The calls get zeros, ones and minus ones. A model that refuses all of these gets the
    example. Inputs without a batch axis always get the example's value.

    Args:
        inputs: The inputs.
        outputs: The outputs as the engine describes them.
        call: See `Call`. Any exception means that the model refuses these items.
        example: An item of each input, for the shapes.
        sizes: Two batch sizes, or the only one of a model with a fixed batch.

    Returns:
        The outputs, with the types of the results.

    Raises:
        Exception: The model's error for the example, if no call succeeds.
    """
    fixed = sizes[0] if len(sizes) == 1 else None
    calls: list[tuple[int, Mapping[str, Any]]] = []
    refusals: list[Exception] = []
    for item, size in _trials(inputs, example, sizes):
        if item is example and len({size for size, _ in calls}) == len(sizes):
            break  # the made-up items were enough
        try:
            calls.append((size, call([item] * size)))
        except Exception as error:  # noqa: BLE001 - raised or reported below
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
            is_batched = is_shown and _has_batch_axis(values)
        (_, first), *_ = values
        dtype = first.dtype if isinstance(first, np.ndarray) else output.dtype
        found.append(replace(output, is_batched=is_batched, dtype=dtype))
    if is_alone:
        return BatchAxes(tuple(found), f"it takes no batch of {max(sizes)}: {refusals[-1]}")
    reason = _no_axis(found)
    if reason and len(ran) < len(sizes):
        reason = f"nothing shows a batch axis, as it refuses zeros and ones: {refusals[0]}"
    elif not reason and not refusals and sizes[-1] > 1:
        zeros, ones = (_fill(inputs, example, value) for value in (0, 1))
        reason = _find_mixed(found, call, zeros, ones, sizes[-1])
    return BatchAxes(tuple(found), reason)


def _has_batch_axis(values: Sequence[tuple[int, Any]]) -> bool:
    """Returns True if axis 0 has the length of the batch in each call and no other axis changes."""
    has_rows = all(value.ndim and len(value) == size for size, value in values)
    return has_rows and len({tuple(value.shape[1:]) for _, value in values}) == 1


def _find_mixed(
    outputs: Sequence[TensorSpec], call: Call, first: Items, other: Items, size: int
) -> str:
    """Names an output whose rows depend on each other; empty if none does or the values are random.

    Args:
        outputs: The outputs.
        call: See `Call`.
        first: An item.
        other: Another item of the same shapes.
        size: The number of items in a batch.
    """

    def run(items: Sequence[Items]) -> dict[str, npt.NDArray[Any]]:
        # Copied, because the next call may write to the memory of the results.
        return {
            name: np.array(value if isinstance(value, np.ndarray) else value.cpu().numpy())
            for name, value in call(items).items()
        }

    ends = [(item, run([item] * size)) for item in (first, other)]
    for (head, of_head), (tail, of_tail) in (ends, ends[::-1]):
        batch = [head] + [tail] * (size - 1)
        mixed = run(batch)
        unlike = [
            output.name
            for output in outputs
            if output.is_batched
            and not _is_near(mixed[output.name], _join(of_head, of_tail, output))
        ]
        again = run(batch) if unlike else mixed
        for name in unlike:
            if _is_near(mixed[name], again[name]):  # otherwise the values are random
                return f"the rows of output {name!r} depend on each other"
    return ""


def _join(head: Items, tail: Items, output: TensorSpec) -> npt.NDArray[Any]:
    """Joins the first row of one batch and the other rows of another batch."""
    return np.concatenate([head[output.name][:1], tail[output.name][1:]])


def _is_near(found: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if found.dtype.kind not in "fc" or found.shape != other.shape:
        return bool(np.array_equal(found, other))
    largest = np.abs(other[np.isfinite(other)]).max(initial=0)
    allowed = _TOLERANCE * float(largest)
    return np.allclose(found, other, rtol=_TOLERANCE, atol=allowed, equal_nan=True)


def _state(output: TensorSpec, fixed_batch: int | None) -> TensorSpec:
    if output.is_batched is not None or output.shape is None:
        return output
    # A length that equals the fixed batch may do so by chance: calls decide.
    is_open = bool(output.shape) and output.shape[0] in (None, fixed_batch)
    return output if is_open else replace(output, is_batched=False)


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
        tensor.name: example[tensor.name]
        if tensor.is_batched is False
        else _make_array(tuple(example[tensor.name].shape), tensor.dtype, value)
        for tensor in inputs
    }


def _make_array(shape: tuple[int, ...], dtype: np.dtype[Any], value: int) -> npt.NDArray[Any]:
    if dtype.hasobject:
        return np.full(shape, str(value).encode() if value else b"", object)
    return np.full(shape, abs(value) if dtype.kind in "bu" else value, dtype)


_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Servable:
    """A loaded and warmed-up model.

    Attributes:
        unit: The unit's name, for messages.
        version: The version number. 0 if the model has no versions.
        model: The model.
        ports: The model's inputs, which check and gather items.
        sizes: The batch sizes for the calls.
        users: The number of batches that run on the model now.
        axes: The batch axes of the outputs. None if the model does not state them and no item has
            shown them yet.
    """

    unit: str
    version: int
    model: LoadedModel
    ports: tuple[InputPort, ...]
    sizes: CallSizes
    users: int = field(default=0)
    axes: BatchAxes | None = field(init=False)
    _deciding: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Reads the batch axes that the model states for its outputs.

        Raises:
            EngineError: The model takes batches of a fixed size and has an output without batch
                axis.
        """
        self.axes = state_batch_axes(self.model.outputs, self.sizes.fixed)
        if self.axes is None and (self.model.is_stateful or not self.model.inputs):
            # For a model that takes no batch, calls of two sizes show nothing.
            fixed = self.sizes.fixed
            outputs = [
                output
                if output.is_batched is not None
                else replace(output, is_batched=fixed is not None and output.batch_size == fixed)
                for output in self.model.outputs
            ]
            self.axes = state_batch_axes(outputs, fixed)
        if self.axes is not None:
            self._apply_axes(self.axes)

    def find_axes(self, example: Mapping[str, Any]) -> None:
        """Decides which outputs are batched, with a few runs of the model if that is unknown.

        Args:
            example: An item of each input, from `InputPort.arrive`.

        Raises:
            EngineError: See `__post_init__`.
        """
        with self._deciding:
            if self.axes is None:
                inputs, outputs, sizes = self.model.inputs, self.model.outputs, self.sizes.trials()
                self._apply_axes(find_batch_axes(inputs, outputs, self._run_items, example, sizes))

    def correct_axes(self, name: str) -> None:
        """Records that an output is not batched, as a result has shown."""
        with self._deciding:
            assert self.axes is not None  # results exist only after the axes were decided
            if name in {output.name for output in self.axes.outputs if output.is_batched}:
                outputs = tuple(
                    replace(output, is_batched=False) if output.name == name else output
                    for output in self.axes.outputs
                )
                self._apply_axes(BatchAxes(outputs, _no_axis(outputs)))

    def _apply_axes(self, axes: BatchAxes) -> None:
        fixed = self.sizes.fixed
        if axes.reason and fixed is not None and fixed > 1:
            text = f"the model takes batches of {fixed}, and {axes.reason}"
            raise unit_error(self.unit, f"{text}; name outputs that have a value for each item")
        if axes.reason:
            self.sizes = CallSizes(1, (), 1)
            text = "unit %r: the model is called with one item at a time: %s"
            _log.log(LEVELS["NOTICE"], text, self.unit, axes.reason)
        self.axes = axes

    def _run_items(self, items: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        staged = {
            port.name: port.gather([port.arrive(item[port.name]) for item in items], len(items))
            for port in self.ports
        }
        return self.model.run(staged)

    @property
    def memory(self) -> Memory:
        """The memory of the inputs and outputs."""
        return memory_of(self.model.memory.kind)

    def run(self, requests: Sequence[Mapping[str, Any]] | Iterator[Mapping[str, Any]]) -> int:
        """Runs whole batches and drops the results (a warm-up); returns the number of runs."""
        count = 0
        with self.memory.running(self.model.memory):
            for batch in itertools.chain.from_iterable(map(self._cut, requests)):
                for _ in range(self.model.warm_up_runs):
                    self.model.run(
                        {
                            port.name: port.gather(rows, self.sizes.size(len(rows)))
                            for port in self.ports
                            for rows in [list(batch[port.name])]
                        }
                    )
                    count += 1
        return count

    def _cut(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yields a request of many rows as batches that the model takes."""
        rows = max(map(len, request.values()), default=1)
        step = max(1, self.sizes.step(rows))
        for start in range(0, rows, step):
            yield {name: values[start : start + step] for name, values in request.items()}


class Serving:
    """The versions that take traffic now. Safe from any thread.

    A batch holds its version with `using`. A replaced version is closed after its last batch.
    """

    def __init__(self, servables: Sequence[Servable]) -> None:
        """Takes the initial versions, the newest last."""
        self._lock = new_lock()
        self._is_unused = threading.Condition(self._lock)
        self._by_version = {servable.version: servable for servable in servables}
        self._is_retiring = False

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that take traffic, the newest last."""
        return tuple(self._by_version)

    @contextmanager
    def using(self, version: int | None = None) -> Iterator[Servable]:
        """Yields a version (None for the newest), which stays loaded inside the block.

        Raises:
            EngineError: That version is not loaded.
        """
        with self._lock:
            known = self._by_version
            servable = known.get(next(reversed(known), 0) if version is None else version)
            if servable is None:
                raise self.unknown(version)
            servable.users += 1
        try:
            yield servable
        finally:
            with self._lock:
                servable.users -= 1
                if self._is_retiring:
                    self._is_unused.notify_all()

    def unknown(self, version: Any) -> EngineError:
        """Returns the error about a version that is not loaded."""
        loaded = ", ".join(map(str, self._by_version)) or "none"
        return EngineError(f"model_version: got {version!r}; the versions loaded are: {loaded}")

    def replace(self, servables: Sequence[Servable]) -> None:
        """Redirects the traffic to other versions, and closes the previous versions once unused."""
        with self._lock:
            retired = list(self._by_version.values())
            self._by_version = {servable.version: servable for servable in servables}
            self._is_retiring = True
            while any(servable.users for servable in retired):
                self._is_unused.wait()
            self._is_retiring = False
        for servable in retired:
            servable.model.close()
