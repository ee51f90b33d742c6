"""The flow unit that runs a model on batches."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import LoadedModel, LoadRequest, TensorSpec, shape_text
from modelflow.engine.lookup import find_engine
from modelflow.engine.model_file import ModelFile, missing_model
from modelflow.engine.options import InferenceOptions, options_with_defaults
from modelflow.engine.staging import InputPort
from modelflow.errors import ConfigError, EngineError, Location
from modelflow.flowunit.folder import UnitFile
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context, FlowUnit

__all__ = ["InferenceUnit", "inference_spec", "inference_unit"]

Array = npt.NDArray[Any]

_log = logging.getLogger(__name__)

# What a declared type of a folder's TOML is called in NumPy; other names are NumPy's own.
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "string": "object",
    "str": "object",
}


# Stands for an item that did not fit; its row is left out of every group.
_NOTHING = np.empty(0)


class InferenceUnit(FlowUnit):
    """Runs a model: items in, one engine call a batch, views of its result out.

    One instance a node, called by several workers at once. Items of different shapes go to the
    engine in separate calls; an item that does not fit the model fails alone.
    """

    def __init__(self, model_file: ModelFile, name: str | None = None) -> None:
        """Stores what to load.

        Args:
            model_file: The model and its ports.
            name: The unit's name, for messages; None: the file's.
        """
        self.model_file = model_file
        self.name = name or model_file.path.stem
        self._model: LoadedModel | None = None
        self._inputs: tuple[InputPort, ...] = ()
        self._batch: int | None = None

    def open(self, config: InferenceOptions | Mapping[str, Any]) -> None:
        """Loads the model on ``self.device``, checks the ports, and warms it up.

        Raises:
            EngineError: the file is missing or no model, or its ports do not fit the unit's.
            MissingDependencyError: the engine's package is not installed.
        """
        options = config if isinstance(config, InferenceOptions) else InferenceOptions(**config)
        file = self.model_file
        absent = missing_model(file.path)
        if absent:
            message = f"unit {self.name!r}: {absent}"
            raise EngineError(message)
        request = LoadRequest(
            file.path,
            self.device,
            options,
            tuple(port.name for port in file.inputs),
            tuple(port.name for port in file.outputs),
        )
        model = find_engine(file.engine).load(request)
        try:
            self._check_types(model)
            self._inputs = tuple(
                InputPort(self.name, tensor, options.allow_cast) for tensor in model.inputs
            )
            self._batch = _fixed_batch(model)
            if options.warmup == "synthetic":
                self._warm_up(model)
        except BaseException:
            model.close()
            raise
        self._model = model

    def process(self, ctx: Context) -> None:
        """Runs the batch; see `FlowUnit.process`."""
        columns = [[buffer.data for buffer in ctx.inputs[port.name]] for port in self._inputs]
        count = len(columns[0])
        results: dict[str, list[Any]] = {name: [None] * count for name in ctx.outputs}
        arrays, failed = self._arrived(columns)
        for row, error in failed.items():
            for values in results.values():
                values[row] = error
        for rows in _groups(arrays, [row for row in range(count) if row not in failed]):
            step = self._batch or len(rows)
            for start in range(0, len(rows), step):
                self._infer(arrays, rows[start : start + step], results)
        for name, values in results.items():
            ctx.emit(values, name)

    def close(self) -> None:
        """Frees the model."""
        model, self._model = self._model, None
        if model is not None:
            model.close()

    def _arrived(
        self, columns: Sequence[list[Any]]
    ) -> tuple[list[list[Array]], dict[int, EngineError]]:
        failed: dict[int, EngineError] = {}
        arrays: list[list[Array]] = []
        for port, column in zip(self._inputs, columns, strict=True):
            arrived: list[Array] = []
            for row, data in enumerate(column):
                try:
                    arrived.append(port.arrive(data))
                except EngineError as error:
                    failed.setdefault(row, error)
                    arrived.append(_NOTHING)
            arrays.append(arrived)
        return arrays, failed

    def _infer(
        self, arrays: list[list[Array]], rows: list[int], results: dict[str, list[Any]]
    ) -> None:
        model = self._model
        if model is None:
            message = f"unit {self.name!r}: process was called before open, or after close"
            raise EngineError(message)
        size = self._batch or len(rows)
        staged = {
            port.name: port.gather([column[row] for row in rows], size)
            for port, column in zip(self._inputs, arrays, strict=True)
        }
        outputs = model.run(staged)
        seen = list(staged.values())
        for name, values in results.items():
            output = self._owned(outputs[name], seen)
            self._check_batch(name, output, size)
            for row, item in zip(rows, _items(output), strict=False):  # the rest is padding
                values[row] = item

    @staticmethod
    def _owned(output: Array, others: list[Array]) -> Array:
        # A model may hand an input through, or one result on two ports. The consumers of one
        # would then see what those of the other write.
        if any(np.may_share_memory(output, other) for other in others):
            output = output.copy()
        others.append(output)
        return output

    def _check_batch(self, name: str, output: Array, size: int) -> None:
        if not output.ndim or len(output) != size:
            message = (
                f"unit {self.name!r}, output {name!r}: got the shape {shape_text(output.shape)} "
                f"for a batch of {size}; expected axis 0 to be the batch; "
                "name an output of the model that has a value for each item"
            )
            raise EngineError(message)

    def _check_types(self, model: LoadedModel) -> None:
        for port, tensor in zip(self.model_file.inputs, model.inputs, strict=True):
            if port.dtype is None:
                continue
            declared = _DTYPES.get(port.dtype.lower(), port.dtype.lower())
            if declared != tensor.dtype.name:
                message = (
                    f"unit {self.name!r}, input {port.name!r}: declared as {port.dtype}, but the "
                    f"model {self.model_file.path} takes {tensor.dtype.name}; correct the type"
                )
                raise EngineError(message)

    def _warm_up(self, model: LoadedModel) -> None:
        unknown = [str(tensor) for tensor in model.inputs if not _is_fully_known(tensor)]
        if unknown:
            _log.info(
                "unit %r: no warm-up, the model leaves the shape of %s open",
                self.name,
                ", ".join(unknown),
            )
            return
        for size in [self._batch] if self._batch else sorted({1, self.batch_size}):
            model.run({t.name: _zeros(t, size) for t in model.inputs})


def inference_spec(
    model_file: ModelFile,
    name: str,
    *,
    description: str = "",
    version: str = "1.0.0",
    group: str = "Inference",
    location: Location | None = None,
) -> FlowUnitSpec:
    """Returns the description of the unit that runs ``model_file``, for any device of its engine.

    Raises:
        ConfigError: the name, the ports or the defaults of the options do not fit.
        EngineError: no engine of that name.
    """
    create = partial(InferenceUnit, model_file, name)
    return FlowUnitSpec(
        name=name,
        devices=dict.fromkeys(find_engine(model_file.engine).device_kinds, create),
        inputs=model_file.inputs,
        outputs=model_file.outputs,
        options=options_with_defaults(model_file.config),
        description=description or f"Runs the model {model_file.path.name}.",
        version=version,
        group=group,
        is_shared=True,
        location=location,
        required_files=(model_file.path,),
    )


def inference_unit(file: UnitFile) -> FlowUnitSpec:
    """Returns the description of the unit in a unit file of the type ``inference``.

    Raises:
        ConfigError: the engine is not named, or the options do not fit.
        EngineError: no engine of that name: the unit cannot be used here.
    """
    if not file.virtual_type:
        message = "[base] virtual_type: got nothing; expected an engine, such as tensorflow"
        raise ConfigError(message)
    model = ModelFile(file.entry, file.virtual_type, file.inputs, file.outputs, file.config)
    return inference_spec(model, **file.common)


def _groups(arrays: list[list[Array]], rows: list[int]) -> list[list[int]]:
    """Gives the rows by the shapes of their items, each group in order."""
    if all(len({column[row].shape for row in rows}) == 1 for column in arrays):
        return [rows]
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for row in rows:
        groups.setdefault(tuple(column[row].shape for column in arrays), []).append(row)
    return list(groups.values())


def _items(output: Array) -> list[Any]:
    # Iterating one axis would give scalars; text stays bytes, numbers become arrays of shape ().
    if output.ndim > 1 or output.dtype == object:
        return list(output)
    return [output[row, ...] for row in range(len(output))]


def _fixed_batch(model: LoadedModel) -> int | None:
    sizes = {size for tensor in model.inputs if (size := tensor.batch_size) is not None}
    return max(sizes, default=None)


def _is_fully_known(tensor: TensorSpec) -> bool:
    shape = tensor.item_shape
    return shape is not None and None not in shape and tensor.dtype != object


def _zeros(tensor: TensorSpec, size: int) -> Array:
    shape = [extent or 0 for extent in tensor.item_shape or ()]
    return np.zeros((size, *shape), tensor.dtype)
