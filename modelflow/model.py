"""The class `Model`, which runs a single model without a graph file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from modelflow.buffer import Buffer
from modelflow.config.flow_config import NOWHERE, EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.engine.inference import inference_spec
from modelflow.engine.model_file import read_model_file
from modelflow.errors import ConfigError, Location, did_you_mean
from modelflow.flow import Flow
from modelflow.registry.folder import read_unit_folder
from modelflow.unit.spec import FlowUnitSpec

if TYPE_CHECKING:
    from modelflow.runtime.stats import NodeStats

_NODE = "model"


class Model:
    """A model whose concurrent callers are merged into batches.

    ::

        with Model("resnet50", batch_size=8) as model:
            (scores,) = model.infer([image])  # from any number of threads

    Each call passes one item without a batch axis: axis 0 of the model's inputs is the batch. Safe
    to use from several threads.
    """

    def __init__(  # noqa: PLR0913 - each is the user's to set
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        batch_size: int | None = None,
        device: str = "cpu",
        device_id: str | None = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        engine: str | None = None,
        **options: Any,
    ) -> None:
        """Reads the description of the model; `start` loads the model itself.

        Args:
            path: A folder with a unit's TOML, a model, or a folder with versions of a model (``1/
                2/ ...``). A model is a frozen graph, the folder of a SavedModel, a Keras file,
                ONNX, OpenVINO, TorchScript, or an exported program.
            name: The unit in the folder, if the folder holds several. For a model file, its name in
                messages.
            batch_size: The most items for one call of the engine. None for the largest of
                ``allowed_batch_sizes``, or for 1 without that option.
            device: ``cpu``, ``cuda``, ``cuda:1``, ``auto``.
            device_id: The number of the device, for a ``device`` without a number.
            inputs: The inputs to use, in the order of `infer`. None for all inputs in the model's
                own order. For model files only.
            outputs: The outputs to use, in the order of the result of `infer`. For model files
                only.
            engine: ``tensorflow``, ``onnx``, ``torch``, ``openvino``, or ``"module:Class"`` for a
                `PythonModel`. None for the engine that fits the format of the file. For model files
                only.
            options: Node attributes (``batch_timeout_ms``, ``threads``, ``queue_size``,
                ``queue_policy``, ``allowed_batch_sizes``, ``split_size``, ``cpu_affinity``) and
                options of the inference unit (``warmup``, ``signature``, ``version``,
                ``precision``).

        Raises:
            EngineError: The model does not exist, or cannot be read.
            ConfigError, GraphError: An option does not exist or does not fit.
            MissingDependencyError: The engine's package is not installed.
        """
        signature = str(options.get("signature", ""))
        spec = model_spec(Path(path), name, inputs, outputs, engine, signature)
        attributes = {"flowunit": spec.name, "device": device, **options}
        if batch_size is not None or not {"allowed_batch_sizes", "max_batch_size"} & set(options):
            attributes["batch_size"] = 1 if batch_size is None else batch_size
        if device_id is not None:
            attributes["deviceid"] = device_id
        self._inputs = tuple(port.name for port in spec.inputs if not port.is_trigger)
        self._outputs = tuple(port.name for port in spec.outputs)
        first = {f"in{place}": port.name for place, port in enumerate(spec.inputs)}
        last = {f"out{place}": port for place, port in enumerate(self._outputs)}
        self._flow = Flow(model_graph(spec, attributes, first, last), units=(spec,))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of `infer`."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in the order of `infer`."""
        return self._outputs

    def start(self) -> Self:
        """Loads and warms up the model.

        Raises:
            FlowFailed: The model did not load; the inner error names the reason.
        """
        self._flow.start()
        return self

    def stop(self) -> None:
        """Frees the model after the current calls have returned. May be called again."""
        self._flow.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def infer(self, inputs: Iterable[Any], timeout: float | None = None) -> list[Buffer]:
        """Runs the model for one item.

        Args:
            inputs: A value for each input, in order, or ``{input: value}``. Empty for a model
                without inputs.
            timeout: The longest wait in seconds, or None for no limit.

        Returns:
            A buffer for each output, in order.

        Raises:
            FlowUnitError: The model failed for the item, or its shape or dtype does not fit.
            TimeoutError: The result was not ready in time.
            QueueFullError: The queue is full and ``queue_policy`` is ``reject``.
        """
        return self._in_order(self._flow.infer(self._by_port(inputs), timeout))

    async def ainfer(self, inputs: Iterable[Any]) -> list[Buffer]:
        """Runs one item as `infer` does, without blocking the event loop.

        For a limit on the wait, use `asyncio.timeout`.
        """
        return self._in_order(await self._flow.ainfer(self._by_port(inputs)))

    def infer_batch(
        self, inputs: Sequence[Sequence[Any]], timeout: float | None = None
    ) -> list[list[Buffer]]:
        """Runs the model for many items.

        Args:
            inputs: A sequence of items for each input, all of the same length.
            timeout: The longest wait in seconds for each result, or None for no limit.

        Returns:
            A list of buffers for each output, in the order of the items. An item that failed has a
            buffer with an error (`Buffer.error`) in its place.

        Raises:
            ValueError: The numbers of items differ, or the model has no inputs.
        """
        if not self._inputs:
            raise ValueError(
                "the model takes no inputs, so the number of items is not known; call infer"
            )
        columns = self._by_port(inputs)
        counts = sorted({len(column) for column in columns.values()})
        if len(counts) > 1:
            raise ValueError(f"got {counts} items on the inputs; expected the same number on each")
        stream = self._flow.create_stream_io()
        return list(stream.exchange(columns, timeout).values())

    def reload(self) -> None:
        """Replaces the running model with the newest version at the path.

        The calling thread loads the new version while the old version serves requests. No request
        fails or waits because of the change.

        Raises:
            FlowUnitError: The new version does not load; the old version continues.
            StreamClosed: The model does not run.
        """
        self._flow.reload(_NODE)

    def stats(self) -> "NodeStats":
        """Returns the statistics of the model's node: calls, batch sizes, times."""
        return self._flow.stats()[_NODE]

    def _by_port(self, inputs: Iterable[Any]) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            if set(inputs) != set(self._inputs):
                strange = [str(name) for name in inputs if name not in self._inputs]
                near = did_you_mean(strange[0], self._inputs) if strange else ""
                raise KeyError(
                    f"got the inputs {sorted(inputs)}; expected {sorted(self._inputs)}{near}"
                )
            values = [inputs[name] for name in self._inputs]
        else:
            values = list(inputs)
        if len(values) != len(self._inputs):
            got = f"{len(values)} values"
            if isinstance(inputs, np.ndarray):
                got = f"a {inputs.dtype} array {inputs.shape} in place of the list of inputs"
            names = ", ".join(self._inputs)
            raise ValueError(f"got {got}; expected a value for each input: [{names}]")
        # A model without inputs has a trigger input instead.
        return {f"in{place}": value for place, value in enumerate(values or [None])}

    def _in_order(self, answers: Any) -> list[Buffer]:
        return [answers] if isinstance(answers, Buffer) else list(answers.values())


def model_spec(
    path: Path,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    engine: str | None = None,
    signature: str = "",
) -> FlowUnitSpec:
    """Returns the unit for the model or unit folder at a path, with the arguments of `Model`.

    ``signature`` names a signature of a SavedModel, and becomes the default of the unit's option.
    If empty, the default of the option does not change.

    Raises:
        EngineError, ConfigError, MissingDependencyError: As `Model`.
    """
    if path.is_dir() and any(path.glob("*.toml")):
        if inputs or outputs or engine:
            raise ConfigError(
                f"{path}: its TOML defines inputs, outputs and engine; give none of them"
            )
        return read_unit_folder(path, name)
    config = {"signature": signature} if signature else None
    file = read_model_file(
        path, engine=engine, inputs=inputs or (), outputs=outputs or (), config=config
    )
    return inference_spec(file, name or _NODE)


def model_graph(
    spec: FlowUnitSpec,
    attributes: Mapping[str, Any],
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    node: str = _NODE,
) -> FlowConfig:
    """Returns a graph with a single node that runs a model.

    Args:
        spec: The unit of the model.
        attributes: The attributes of the node.
        inputs: The inputs of the graph, as name -> port of the model.
        outputs: The outputs of the graph, as name -> port of the model.
        node: The node's name.
    """
    ends = [NodeConfig(name, {"type": "input"}) for name in inputs]
    ends += [NodeConfig(name, {"type": "output"}) for name in outputs]
    edges = [EdgeConfig(PortRef(name), PortRef(node, port)) for name, port in inputs.items()]
    edges += [EdgeConfig(PortRef(node, port), PortRef(name)) for name, port in outputs.items()]
    place = Location(str(spec.required_files[0])) if spec.required_files else NOWHERE
    nodes = (NodeConfig(node, attributes, place), *ends)
    return FlowConfig(nodes, tuple(edges), flow={"name": spec.name})
