"""The flow unit that runs a model on batches."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from modelflow.buffer import Buffer
from modelflow.device.heap import give_memory_back
from modelflow.engine.batching import BatchFigures, copy_shared, group_rows, items_of
from modelflow.engine.engine import Arrays, unit_error
from modelflow.engine.loading import Loading
from modelflow.engine.lookup import engine_for
from modelflow.engine.model_file import ModelFile
from modelflow.engine.options import InferenceOptions, options_with_defaults
from modelflow.engine.python.unread import describe_unread
from modelflow.engine.servable import Servable, Serving
from modelflow.errors import ConfigError, EngineError, ItemRefusedError, Location
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec, UnitFile
from modelflow.unit.unit import Context, FlowUnit
from modelflow.wire.tensor import TensorSpec, shape_text

# The input of a unit whose model takes no input: each item at the port is one call of the model.
_TRIGGER = Port("trigger", "Anything: each item is one call of the model.", is_trigger=True)


class InferenceUnit(FlowUnit):
    """A unit that runs a model: one engine call for each batch, and views of the result as items.

    Each node and device has one instance, which several workers call at once. Items of different
    shapes go to the engine in separate calls (unless ``pad_variable`` is set). An item that does
    not fit fails without affecting the others.
    """

    def __init__(self, model_file: ModelFile, name: str | None = None) -> None:
        """Stores the model file; `open` loads the model.

        Args:
            model_file: The model and its ports.
            name: The unit's name, for messages. None for the file's name.
        """
        self.model_file = model_file
        self.name = name or model_file.path.stem
        self._options = InferenceOptions()
        self._serving: Serving | None = None
        self._figures = BatchFigures()
        self._loading = threading.Lock()

    # -- life -----------------------------------------------------------------------------------

    def open(self, config: InferenceOptions | Mapping[str, Any]) -> None:
        """Loads the model on ``self.device``, checks the ports, and warms the model up.

        Raises:
            EngineError: The file is missing or no model, its ports do not fit the unit's, or a
                recorded request does not fit.
            MissingDependencyError: the engine's package is not installed.
        """
        if not isinstance(config, InferenceOptions):
            config = self.model_file.find_engine().options(**config)
        self._options = config
        with self._loading:
            self._serving = Serving(self._load())

    def reload(self) -> None:
        """Loads the current model of the path, and frees the old model after its last batch.

        The new model is warmed up before it gets the traffic. Runs on the caller's thread,
        concurrently with `process`. No batch fails or waits for the reload. If the new model does
        not load, the old model stays in use.

        Raises:
            EngineError: See `open`; also raised if the unit is closed.
        """
        with self._loading:
            serving = self._open()
            serving.replace(self._load())
        give_memory_back()

    def close(self) -> None:
        """Frees the model, after a reload that is under way."""
        with self._loading:
            serving, self._serving = self._serving, None
            if serving is not None:
                serving.replace(())

    def tensors(self) -> dict[str, TensorSpec]:
        """Returns the type and item shape of each port, from the newest version of the model."""
        with self._open().using() as servable:
            axes = servable.axes
            outputs = servable.model.outputs if axes is None else axes.outputs
            return {
                tensor.name: replace(tensor, shape=tensor.item_shape)
                for tensor in (*servable.model.inputs, *outputs)
            }

    def figures(self) -> dict[str, dict[Any, int]]:
        """Returns the sizes of the engine's calls, the padding, and the cuts by shape."""
        return self._figures.read()

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that take traffic, the newest last. ``(0,)`` if the model has none."""
        return self._open().versions

    # -- batches --------------------------------------------------------------------------------

    def process(self, ctx: Context) -> None:
        """Runs the batch; see `FlowUnit.process`."""
        first = next(iter(ctx.inputs.values()))
        results: dict[str, list[Any]] = {name: [None] * len(first) for name in ctx.outputs}
        serving = self._open()
        for version, rows in _by_version(first).items():
            if version is not None and version not in serving.versions:
                _fail(results, rows, serving.unknown(version))
                continue
            with serving.using(version) as servable:
                self._process(servable, ctx, rows, results)
        for name, values in results.items():
            ctx.emit(values, name)

    def _process(
        self, servable: Servable, ctx: Context, rows: list[int], results: dict[str, list[Any]]
    ) -> None:
        arrays: dict[str, dict[int, Any]] = {port.name: {} for port in servable.ports}
        failed: dict[int, EngineError] = {}
        for port in servable.ports:
            column = ctx.inputs[port.name]
            for row in rows:
                try:
                    arrays[port.name][row] = port.arrive(column[row].data, column[row].get("shape"))
                except EngineError as error:
                    failed.setdefault(row, error)
        for row, failure in failed.items():
            _fail(results, [row], failure)
        good = [row for row in rows if row not in failed]
        if good and servable.axes is None:
            servable.find_axes({name: column[good[0]] for name, column in arrays.items()})
        groups = self._by_shape(servable, arrays, good)
        if len(groups) > 1:
            self._figures.split(len(groups))
        for group in groups:
            start = 0
            while start < len(group):
                sizes = servable.sizes
                taken = group[start : start + sizes.step(len(group) - start)]
                self._infer(servable, arrays, taken, sizes.size(len(taken)), results)
                start += len(taken)

    def _by_shape(
        self, servable: Servable, arrays: Mapping[str, Mapping[int, Any]], rows: list[int]
    ) -> list[list[int]]:
        is_padded = self._options.pad_variable
        shared = [port for port in servable.ports if not port.is_batched]
        if not shared and all(
            len({column[row].shape for row in rows}) == 1 for column in arrays.values()
        ):
            return [rows] if rows else []
        return group_rows(
            {
                row: (
                    *(
                        len(column[row].shape) if is_padded else tuple(column[row].shape)
                        for column in arrays.values()
                    ),
                    *(port.value_of(arrays[port.name][row]) for port in shared),
                )
                for row in rows
            }
        )

    def _infer(
        self,
        servable: Servable,
        arrays: Mapping[str, Mapping[int, Any]],
        rows: list[int],
        size: int,
        results: dict[str, list[Any]],
    ) -> None:
        items = {port.name: [arrays[port.name][row] for row in rows] for port in servable.ports}
        staged = self._stage(servable, items, size)
        outputs = self._run(servable, items, staged)
        self._figures.call(len(rows), size)
        assert servable.axes is not None  # decided before the first call
        for output in servable.axes.outputs:
            if output.is_batched:
                self._check_rows(servable, output.name, outputs, size)
        axes = servable.axes  # the results may have corrected them
        if axes.reason and size > 1:  # the first result that shows it: repeat the call item by item
            for row in rows:
                self._infer(servable, arrays, [row], 1, results)
            return
        seen = list(staged.values())
        for output in axes.outputs:
            values = results[output.name]
            value = copy_shared(outputs[output.name], seen, servable.model.keeps_outputs)
            # The rows after the last item are padding.
            given = items_of(value)[: len(rows)] if output.is_batched else [value]
            for row, item in zip(rows, given, strict=True):
                values[row] = item

    def _stage(
        self, servable: Servable, items: Mapping[str, list[Any]], size: int
    ) -> dict[str, Any]:
        staged = {}
        for port in servable.ports:
            shape = None
            if self._options.pad_variable and port.is_batched:
                shapes = {tuple(item.shape) for item in items[port.name]}
                if len(shapes) > 1:  # the smallest shape that holds each
                    shape = tuple(max(extents) for extents in zip(*shapes, strict=True))
            staged[port.name] = port.gather(items[port.name], size, shape)
        return staged

    def _run(
        self, servable: Servable, items: Mapping[str, list[Any]], staged: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            return servable.model.run(staged)
        except ItemRefusedError as error:
            unusual = [port.describe_unusual(items[port.name][0]) for port in servable.ports]
            hint = next(filter(None, unusual), "")
            if not hint:
                raise
            raise ItemRefusedError(f"{hint} ({error})") from error

    def _check_rows(self, servable: Servable, name: str, outputs: Arrays, size: int) -> None:
        """Checks that an output has a row for each item, and corrects the batch axes if not.

        Raises:
            EngineError: The output has another number of rows, although the model file states a
                batch axis or the model takes one batch size only.
        """
        output = outputs[name]
        if output.ndim and len(output) == size:
            return
        if servable.axes is None or servable.axes.is_stated or servable.model.fixed_batch:
            raise EngineError(
                f"unit {self.name!r}, output {name!r}: got shape {shape_text(output.shape)} "
                f"for a batch of {size}; expected the batch on axis 0; "
                "use outputs with a value per item"
            )
        servable.correct_axes(name)

    def _open(self) -> Serving:
        serving = self._serving
        if serving is None:
            raise unit_error(self.name, "it was called before open, or after close")
        return serving

    def _load(self) -> list[Servable]:
        sizes = self.batch_size, self.allowed_batch_sizes
        return Loading(self.model_file, self.name, self._options, self.device, *sizes).servables()


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

    A model without inputs is called once for each item at the port ``trigger``.

    Raises:
        ConfigError: The name, the ports or the defaults of the options do not fit.
        EngineError: No engine has that name.
    """
    create = partial(InferenceUnit, model_file, name)
    engine = model_file.find_engine()
    return FlowUnitSpec(
        is_type_checked=False,
        refuses_with=ValueError,
        name=name,
        devices=dict.fromkeys(engine.device_kinds, create),
        inputs=model_file.inputs or (_TRIGGER,),
        outputs=model_file.outputs,
        options=options_with_defaults(engine.options, model_file.config),
        description=description or f"Runs the model {model_file.path.name}.",
        version=version,
        group=group,
        is_shared=True,
        location=location,
        required_files=(model_file.path,),
        requires=engine.requires,
    )


def is_inference(spec: FlowUnitSpec) -> bool:
    """Tells whether a unit runs an engine."""
    makers = spec.devices.values()
    return any(isinstance(one, partial) and one.func is InferenceUnit for one in makers)


def inference_unit(file: UnitFile) -> FlowUnitSpec:
    """Returns the description of the unit in a unit file of the type ``inference``.

    Raises:
        ConfigError: The file names no engine, or the options do not fit.
        EngineError: No engine has that name. The unit cannot be used here.
    """
    if not file.virtual_type:
        raise ConfigError(
            "[base] virtual_type: got nothing; expected an engine, such as tensorflow"
        )
    model = ModelFile(
        file.entry,
        file.virtual_type,
        file.inputs,
        file.outputs,
        file.config,
        find_class=file.find_class,
    )
    try:
        return replace(inference_spec(model, **file.common), modules=file.modules)
    except EngineError as error:
        reader = None
        with contextlib.suppress(EngineError):
            reader = engine_for(file.entry)
        if reader is None:
            raise EngineError(f"{error}{describe_unread(file.entry)}") from error
        if f"did you mean {reader!r}" in str(error):
            raise
        raise EngineError(
            f"there is no engine {file.virtual_type!r}; virtual_type = {reader!r} runs "
            f"{file.entry.name}"
        ) from error


def _by_version(buffers: Sequence[Buffer]) -> dict[Any, list[int]]:
    versions = [buffer.get("model_version") for buffer in buffers]
    if not any(versions):
        return {None: list(range(len(buffers)))}
    return {versions[rows[0]]: rows for rows in group_rows(dict(enumerate(versions)))}


def _fail(results: Mapping[str, list[Any]], rows: Sequence[int], error: EngineError) -> None:
    for values in results.values():
        for row in rows:
            values[row] = error
