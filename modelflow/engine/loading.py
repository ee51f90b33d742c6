"""Turns a model file into servables: loads or reuses versions, checks ports, warms up.

``modelflow run --watch`` ends a flow and starts the next, for example with one changed threshold.
Inside `KeptModels` a model stays in memory when the first flow closes it. The second flow gets that
model if it loads the same one. `drop` closes the models that no flow has loaded again.
"""

import logging
import os
import threading
from dataclasses import dataclass
from inspect import get_annotations
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from modelflow.device import Device
from modelflow.engine.batching import CallSizes
from modelflow.engine.engine import (
    Arrays,
    Engine,
    LoadedModel,
    LoadRequest,
    one_sentence,
    unit_error,
)
from modelflow.engine.lookup import choose_versions, weight_files
from modelflow.engine.model_file import ModelFile, missing_model
from modelflow.engine.options import InferenceOptions
from modelflow.engine.servable import Servable
from modelflow.engine.staging import InputPort
from modelflow.engine.warmup import in_sizes, read_recorded_requests, synthetic_requests
from modelflow.errors import EngineError, below_here
from modelflow.unit.spec import DECLARED_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelflow.engine.warmup import Request


logger = logging.getLogger("modelflow")

# The most files of a model's folder that are compared to detect a change of the model.
_MOST_FILES = 10_000


class KeptModels:
    """A cache of loaded models between flows, active inside a ``with``; at most one per process."""

    def __init__(self) -> None:
        self._resting: dict[Any, list[LoadedModel]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        global _active  # noqa: PLW0603 - units load their models wherever they are opened
        if _active is not None:
            raise RuntimeError("models are being kept already")
        _active = self
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        global _active  # noqa: PLW0603
        _active = None
        self.drop()

    def load(self, engine: Engine, request: LoadRequest) -> LoadedModel:
        """Returns a cached model that fits the request, or loads the model.

        Raises:
            EngineError, MissingDependencyError: See `Engine.load`.
        """
        key = (engine, _identity(request))
        with self._lock:
            resting = self._resting.get(key)
            model = resting.pop() if resting else None
        if model is not None:
            logger.info("model %s stays loaded", below_here(str(request.path)))
        return _Kept(engine.load(request) if model is None else model, key, self)

    def rest(self, key: Any, model: LoadedModel) -> None:
        """Caches a model that a flow has closed, or closes the model if the cache is inactive."""
        with self._lock:
            if _active is self:
                self._resting.setdefault(key, []).append(model)
                return
        model.close()

    def drop(self) -> None:
        """Closes the cached models."""
        with self._lock:
            resting, self._resting = self._resting, {}
        for models in resting.values():
            for model in models:
                model.close()


_active: KeptModels | None = None


def load_model(engine: Engine, request: LoadRequest) -> LoadedModel:
    """Loads a model, or returns a cached model.

    Raises:
        EngineError, MissingDependencyError: See `Engine.load`.
    """
    keeper = _active
    return engine.load(request) if keeper is None else keeper.load(engine, request)


class _Kept(LoadedModel):
    """A loaded model that returns to the cache when its flow closes the model."""

    def __init__(self, model: LoadedModel, key: Any, keeper: KeptModels) -> None:
        self._model, self._key, self._keeper = model, key, keeper
        for name in get_annotations(LoadedModel):  # the attributes that describe a model
            setattr(self, name, getattr(model, name))

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        return self._model.run(inputs)

    def close(self) -> None:
        self._keeper.rest(self._key, self._model)


def _identity(request: LoadRequest) -> Any:
    """Returns a key that is equal for two requests of the same, unchanged model."""
    types = tuple((name, np.dtype(kind).str) for name, kind in request.types.items())
    ports = (request.inputs, request.outputs, types, request.batch_sizes)
    return (_state(request.path), request.device, repr(request.options), ports)


def _state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Returns names, times and sizes of a model's files; with too many files, a unique value."""
    files = [file for file in (path, *weight_files(path)) if file.is_file()]
    if path.is_dir():
        files = [Path(place, name) for place, _, names in os.walk(path) for name in sorted(names)]
    if len(files) > _MOST_FILES:
        return ((str(path), id(path), -1),)
    found = [(file, file.stat()) for file in sorted(files)]
    return tuple((str(file), state.st_mtime_ns, state.st_size) for file, state in found)


@dataclass(frozen=True, slots=True)
class Loading:
    """The parameters with which an inference unit loads its model."""

    model_file: ModelFile
    """The model and its ports."""
    name: str
    """The unit's name, for messages."""
    options: InferenceOptions
    """The options of the node."""
    device: Device
    """The device to run on."""
    batch_size: int
    """The largest number of items in a call."""
    allowed_batch_sizes: tuple[int, ...]
    """The sizes that batches are padded to. Empty for any size."""

    def servables(self) -> list[Servable]:
        """Loads and warms up every requested version; if a version fails, closes the others.

        Raises:
            EngineError: The file is missing or no model, its ports do not fit the unit's, or a
                recorded request does not fit.
            MissingDependencyError: the engine's package is not installed.
        """
        file = self.model_file
        if absent := missing_model(file.path):
            raise unit_error(self.name, absent)
        loaded: list[Servable] = []
        try:
            for version, path in choose_versions(file.path, self.options.version).items():
                loaded.append(self._load_version(version, self._request(path)))
        except BaseException:
            for servable in loaded:
                servable.model.close()
            raise
        return loaded

    def _request(self, path: Any) -> LoadRequest:
        file = self.model_file
        types = {p.name: np.dtype(_dtype(p.dtype)) for p in file.inputs if p.dtype is not None}
        takes, gives = (tuple(port.name for port in side) for side in (file.inputs, file.outputs))
        return LoadRequest(
            path, self.device, self.options, takes, gives, types, self._allowed_sizes, file.group
        )

    @property
    def _allowed_sizes(self) -> tuple[int, ...]:
        if self.allowed_batch_sizes or not self.options.has_few_sizes:
            return self.allowed_batch_sizes
        powers = (1 << power for power in range((self.batch_size - 1).bit_length()))
        return (*powers, self.batch_size)

    def _load_version(self, version: int, request: LoadRequest) -> Servable:
        model = load_model(self.model_file.find_engine(), request)
        try:
            self._check_types(model)
            sizes = CallSizes(
                model.fixed_batch, self._allowed_sizes, self.batch_size, model.batch_range
            )
            ports = tuple(
                InputPort(self.name, tensor, self.options.allow_cast, model.memory, model.text_type)
                for tensor in model.inputs
            )
            servable = Servable(self.name, version, model, ports, sizes)
            self._warm_up(servable, request)
        except BaseException:
            model.close()
            raise
        return servable

    def _warm_up(self, servable: Servable, request: LoadRequest) -> None:
        options, model = self.options, servable.model
        requests: Sequence[Request] = ()
        if options.warmup == "recorded":
            requests = read_recorded_requests(model, request.path, options.warmup_requests)
        elif not model.is_stateful:
            requests = list(synthetic_requests(model, self.name))
        if servable.axes is None and requests:
            with servable.memory.running(model.memory):
                servable.find_axes({name: rows[0, ...] for name, rows in requests[0].items()})
        try:
            if options.warmup == "recorded":
                servable.run(requests)
            if options.warmup != "none" and requests:
                servable.run(in_sizes(requests[0], servable.sizes.all()))
        except ValueError as error:  # as a `PythonModel` refuses a row
            what = "recorded requests" if options.warmup == "recorded" else "zeros"
            text = f"the model refuses the {what} of its warm-up: {one_sentence(str(error))}"
            raise unit_error(self.name, f"{text}; accept them, or set warmup=none") from error

    def _check_types(self, model: LoadedModel) -> None:
        if model.inputs and not self.model_file.inputs:
            takes = ", ".join(map(str, model.inputs))
            text = f"it declares no input, but the model {self.model_file.path} takes {takes}"
            raise unit_error(self.name, f"{text}; declare an input for each")
        for port, tensor in zip(self.model_file.inputs, model.inputs, strict=True):
            if port.dtype is None:
                continue
            if _dtype(port.dtype) != tensor.dtype.name:
                raise EngineError(
                    f"unit {self.name!r}, input {port.name!r}: declared as {port.dtype}, but the "
                    f"model {self.model_file.path} takes {tensor.dtype.name}; correct the type"
                )


def _dtype(declared: str) -> str:
    return DECLARED_TYPES.get(declared.lower(), declared.lower())
