"""Models that stay loaded while a graph is read again: those that are the same in all regards.

``modelflow run --watch`` ends a flow and starts the next, perhaps with one threshold changed.
Inside `KeptModels` a model that the first one closes rests, and is given to the second if that asks
for the same; `drop` closes what nobody asked for.
"""

import glob
import logging
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import Arrays, Engine, LoadedModel, LoadRequest
from modelflow.errors import below_here

__all__ = ["KeptModels", "load_model"]

logger = logging.getLogger("modelflow")

# Of a model's folder, what is looked at to tell whether it has changed.
_MOST_FILES = 10_000


class KeptModels:
    """Keeps models between flows, from ``with`` on to its end; one at a time in a process."""

    def __init__(self) -> None:
        self._resting: dict[Any, list[LoadedModel]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        global _active  # noqa: PLW0603 - units load their models wherever they are opened
        if _active is not None:
            message = "models are being kept already"
            raise RuntimeError(message)
        _active = self
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        global _active  # noqa: PLW0603
        _active = None
        self.drop()

    def load(self, engine: Engine, request: LoadRequest) -> LoadedModel:
        """Returns a model that rests and is the one asked for, or loads it.

        Raises:
            EngineError, MissingDependencyError: as `Engine.load`.
        """
        key = (type(engine), _identity(request))
        with self._lock:
            resting = self._resting.get(key)
            model = resting.pop() if resting else None
        if model is not None:
            logger.info("model %s stays loaded", below_here(str(request.path)))
        return _Kept(engine.load(request) if model is None else model, key, self)

    def rest(self, key: Any, model: LoadedModel) -> None:
        """Takes a model that a flow has closed; closes it where none are kept any more."""
        with self._lock:
            if _active is self:
                self._resting.setdefault(key, []).append(model)
                return
        model.close()

    def drop(self) -> None:
        """Closes the models that rest."""
        with self._lock:
            resting, self._resting = self._resting, {}
        for models in resting.values():
            for model in models:
                model.close()


_active: KeptModels | None = None


def load_model(engine: Engine, request: LoadRequest) -> LoadedModel:
    """Loads a model, or takes one that is kept.

    Raises:
        EngineError, MissingDependencyError: as `Engine.load`.
    """
    keeper = _active
    return engine.load(request) if keeper is None else keeper.load(engine, request)


class _Kept(LoadedModel):
    """A model that is given back when its flow closes it."""

    def __init__(self, model: LoadedModel, key: Any, keeper: KeptModels) -> None:
        self._model, self._key, self._keeper = model, key, keeper
        self.inputs, self.outputs = model.inputs, model.outputs
        self.memory, self.warm_up_runs = model.memory, model.warm_up_runs
        self.batch_range, self.text_type = model.batch_range, model.text_type
        self.is_stateful = model.is_stateful

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        return self._model.run(inputs)

    def close(self) -> None:
        self._keeper.rest(self._key, self._model)


def _identity(request: LoadRequest) -> Any:
    """Returns what two requests have in common that are for the same model, in the same state."""
    types = tuple((name, np.dtype(kind).str) for name, kind in request.types.items())
    ports = (request.inputs, request.outputs, types, request.batch_sizes)
    return (_state(request.path), request.device, repr(request.options), ports)


def _state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Returns names, times and sizes of a model's files; of one of too many files nothing equal."""
    # With what lies beside it under a longer name, as ONNX puts large weights.
    files = [file for file in path.parent.glob(f"{glob.escape(path.name)}*") if file.is_file()]
    if path.is_dir():
        files = [Path(place, name) for place, _, names in os.walk(path) for name in sorted(names)]
    if len(files) > _MOST_FILES:
        return ((str(path), id(path), -1),)
    found = [(file, file.stat()) for file in sorted(files)]
    return tuple((str(file), state.st_mtime_ns, state.st_size) for file, state in found)
