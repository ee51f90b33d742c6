"""A version of a model in memory, and the handing over from one version to the next."""

import itertools
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from modelflow.device import Memory, memory_of
from modelflow.engine.batch_axis import BatchAxes, find_batch_axes, state_batch_axes
from modelflow.engine.batching import CallSizes
from modelflow.engine.engine import LoadedModel
from modelflow.engine.staging import InputPort
from modelflow.errors import EngineError
from modelflow.log import LEVELS

__all__ = ["Servable", "Serving"]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Servable:
    """A loaded model, warmed up.

    Attributes:
        unit: The unit's name, for messages.
        version: Its number; 0 where the model has no versions.
        model: The model.
        ports: Its inputs, as items are checked and gathered.
        sizes: The sizes of batch that it is called with.
        users: How many batches run on it now.
        axes: Which of its outputs are batched; None: the model does not say, and no item has shown
            it yet.
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
        """Reads what the model says of its outputs.

        Raises:
            EngineError: it takes batches of a fixed size, and has an output without batch axis.
        """
        self.axes = state_batch_axes(self.model.outputs, self.sizes.fixed)
        if self.axes is None and (self.model.is_stateful or not self.model.inputs):
            # Calls of two sizes show nothing of a model that takes no batch.
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

    def find_axes(self, example: Mapping[str, Any]) -> BatchAxes:
        """Returns which outputs are batched; runs the model a few times where nobody knows yet.

        Args:
            example: An item of each input, as `InputPort.arrive` gives it.

        Raises:
            EngineError: see `__post_init__`.
        """
        with self._deciding:
            if self.axes is None:
                self._apply_axes(
                    find_batch_axes(
                        self.model.inputs,
                        self.model.outputs,
                        self._run_items,
                        example,
                        self.sizes.trials(),
                    )
                )
            assert self.axes is not None  # decided now or before
            return self.axes

    def correct_axes(self, output: str) -> None:
        """Notes that an output is not batched, as a result has shown."""
        with self._deciding:
            assert self.axes is not None  # else there would be no result
            if output in {o.name for o in self.axes.outputs if o.is_batched}:
                self._apply_axes(self.axes.without(output))

    def _apply_axes(self, axes: BatchAxes) -> None:
        fixed = self.sizes.fixed
        if axes.reason and fixed is not None and fixed > 1:
            message = (
                f"unit {self.unit!r}: the model takes batches of {fixed}, and {axes.reason}; "
                "name outputs that have a value for each item"
            )
            raise EngineError(message)
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
        """Where its inputs and outputs are."""
        return memory_of(self.model.memory.kind)

    def run(self, requests: Sequence[Mapping[str, Any]] | Iterator[Mapping[str, Any]]) -> int:
        """Runs whole batches for nothing (a warm-up); returns how many."""
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
        """Gives a request of many rows as batches that the model takes."""
        rows = max(map(len, request.values()), default=1)
        step = max(1, self.sizes.step(rows))
        for start in range(0, rows, step):
            yield {name: values[start : start + step] for name, values in request.items()}


class Serving:
    """The versions that take traffic now. Safe from any thread.

    Who runs a batch holds its version by `using`; one that is replaced is closed when nobody holds
    it any more.
    """

    def __init__(self, servables: Sequence[Servable]) -> None:
        """Takes the versions to begin with, the newest last."""
        self._lock = threading.Lock()
        self._is_unused = threading.Condition(self._lock)
        self._by_version = {servable.version: servable for servable in servables}

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that take traffic, the newest last."""
        return tuple(self._by_version)

    @contextmanager
    def using(self, version: int | None = None) -> Iterator[Servable]:
        """Gives a version (None: the newest), which stays loaded inside the block.

        Raises:
            EngineError: that version is not loaded.
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
                if not servable.users:
                    self._is_unused.notify_all()

    def unknown(self, version: Any) -> EngineError:
        """Returns the error about a version that is not loaded."""
        loaded = ", ".join(map(str, self._by_version)) or "none"
        return EngineError(f"model_version: got {version!r}; the versions loaded are: {loaded}")

    def replace(self, servables: Sequence[Servable]) -> None:
        """Lets other versions take the traffic, and closes those before once they are unused."""
        with self._lock:
            retired = list(self._by_version.values())
            self._by_version = {servable.version: servable for servable in servables}
            while any(servable.users for servable in retired):
                self._is_unused.wait()
        for servable in retired:
            servable.model.close()
