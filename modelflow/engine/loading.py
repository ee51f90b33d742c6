"""From a model file to what serves a unit: each version loaded, its ports checked, warmed up."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from modelflow.device import Device
from modelflow.engine.batching import CallSizes
from modelflow.engine.engine import LoadedModel, LoadRequest
from modelflow.engine.kept import load_model
from modelflow.engine.lookup import find_engine
from modelflow.engine.model_file import ModelFile, missing_model
from modelflow.engine.options import InferenceOptions
from modelflow.engine.servable import Servable
from modelflow.engine.staging import InputPort
from modelflow.engine.versions import chosen_versions
from modelflow.engine.warmup import in_sizes, recorded_requests, synthetic_requests
from modelflow.errors import EngineError
from modelflow.unit.declared import DECLARED_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelflow.engine.warmup import Request

__all__ = ["Loading"]


@dataclass(frozen=True, slots=True)
class Loading:
    """How an inference unit wants its model."""

    model_file: ModelFile
    """The model and its ports."""
    name: str
    """The unit's, for messages."""
    options: InferenceOptions
    """The node's."""
    device: Device
    """Where it runs."""
    batch_size: int
    """The most items in a call."""
    allowed_batch_sizes: tuple[int, ...]
    """The sizes that batches are filled up to; empty for any."""

    def servables(self) -> list[Servable]:
        """Loads and warms up every version that is asked for; nothing stays of one that fails.

        Raises:
            EngineError: the file is missing or no model, its ports do not fit the unit's, or a
                recorded request does not fit.
            MissingDependencyError: the engine's package is not installed.
        """
        file = self.model_file
        absent = missing_model(file.path)
        if absent:
            message = f"unit {self.name!r}: {absent}"
            raise EngineError(message)
        loaded: list[Servable] = []
        try:
            for version, path in chosen_versions(file.path, self.options.version).items():
                loaded.append(self._load_version(version, self._request(path)))
        except BaseException:
            for servable in loaded:
                servable.model.close()
            raise
        return loaded

    def _request(self, path: Any) -> LoadRequest:
        file = self.model_file
        types = {p.name: np.dtype(_dtype(p.dtype)) for p in file.inputs if p.dtype is not None}
        return LoadRequest(
            path,
            self.device,
            self.options,
            tuple(port.name for port in file.inputs),
            tuple(port.name for port in file.outputs),
            types,
            self._allowed_sizes,
            file.group,
        )

    @property
    def _allowed_sizes(self) -> tuple[int, ...]:
        if self.allowed_batch_sizes or not self.options.has_few_sizes:
            return self.allowed_batch_sizes
        powers = (1 << power for power in range((self.batch_size - 1).bit_length()))
        return (*powers, self.batch_size)

    def _load_version(self, version: int, request: LoadRequest) -> Servable:
        model = load_model(find_engine(self.model_file.engine), request)
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
            requests = recorded_requests(model, request.path, options.warmup_requests)
        elif not model.is_stateful:
            requests = list(synthetic_requests(model, self.name))
        if servable.axes is None and requests:
            with servable.memory.running(model.memory):
                servable.find_axes({name: rows[0, ...] for name, rows in requests[0].items()})
        if options.warmup == "recorded":
            servable.run(requests)
        if options.warmup != "none" and requests:
            servable.run(in_sizes(requests[0], servable.sizes.all()))

    def _check_types(self, model: LoadedModel) -> None:
        if model.inputs and not self.model_file.inputs:
            message = (
                f"unit {self.name!r}: it declares no input, but the model {self.model_file.path} "
                f"takes {', '.join(map(str, model.inputs))}; declare an input for each"
            )
            raise EngineError(message)
        for port, tensor in zip(self.model_file.inputs, model.inputs, strict=True):
            if port.dtype is None:
                continue
            if _dtype(port.dtype) != tensor.dtype.name:
                message = (
                    f"unit {self.name!r}, input {port.name!r}: declared as {port.dtype}, but the "
                    f"model {self.model_file.path} takes {tensor.dtype.name}; correct the type"
                )
                raise EngineError(message)


def _dtype(declared: str) -> str:
    return DECLARED_TYPES.get(declared.lower(), declared.lower())
