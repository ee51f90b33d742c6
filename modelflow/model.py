"""`Model`: one model, with the batches of its callers merged; for applications without a graph."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from modelflow.buffer import Buffer
from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.engine.inference import inference_spec
from modelflow.engine.model_file import read_model_file
from modelflow.errors import ConfigError, did_you_mean
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

    Every call is one item: what the model calls axis 0 is the batch, and is not part of it. Safe to
    use from several threads.
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
        """Describes the model; `start` loads it.

        Args:
            path: A folder with the unit's TOML, a model (a frozen graph, a SavedModel's folder, a
                Keras file, ONNX, TorchScript, an exported program), or a folder with versions of
                one (``1/ 2/ ...``).
            name: The unit in the folder, where it holds several; for a model file, its name in
                messages.
            batch_size: Most items that one call of the engine gets; None: the largest of
                ``allowed_batch_sizes``, else 1.
            device: ``cpu``, ``cuda``, ``cuda:1``, ``auto``.
            device_id: The device's number, for a ``device`` that gives none.
            inputs: The inputs to use, in the order of `infer`; None: all that it has, in its
                own order. For model files only.
            outputs: The same for the outputs.
            engine: ``tensorflow``, ``onnx``, ``torch``; None: by the form of the file. For model
                files only.
            options: Node attributes (``batch_timeout_ms``, ``threads``, ``queue_size``,
                ``queue_policy``, ``allowed_batch_sizes``, ``split_size``, ``cpu_affinity``) and
                options of the inference unit (``warmup``, ``signature``, ``version``,
                ``precision``).

        Raises:
            EngineError: no such model.
            ConfigError, GraphError: an option that does not exist or does not fit.
            MissingDependencyError: the engine's package is not installed.
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
        """Loads the model and warms it up.

        Raises:
            FlowFailed: it did not load; the inner error says why.
        """
        self._flow.start()
        return self

    def stop(self) -> None:
        """Frees the model, once the calls under way have their answers. May be called again."""
        self._flow.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def infer(self, inputs: Iterable[Any], timeout: float | None = None) -> list[Buffer]:
        """Runs one item.

        Args:
            inputs: A value for each input, in order (``{input: value}`` will do too); empty for a
                model that takes none.
            timeout: Longest wait in seconds; None: as long as it takes.

        Returns:
            A buffer for each output, in order.

        Raises:
            FlowUnitError: the model failed on it, or shape or dtype do not fit.
            TimeoutError: no answer in time.
            QueueFullError: the queue is full and ``queue_policy`` is ``reject``.
        """
        return self._in_order(self._flow.infer(self._by_port(inputs), timeout))

    async def ainfer(self, inputs: Iterable[Any]) -> list[Buffer]:
        """Does what `infer` does without blocking the event loop; see `asyncio.timeout`."""
        return self._in_order(await self._flow.ainfer(self._by_port(inputs)))

    def infer_batch(
        self, inputs: Sequence[Sequence[Any]], timeout: float | None = None
    ) -> list[list[Buffer]]:
        """Runs many items.

        Args:
            inputs: For each input, its items; all of the same number.
            timeout: Longest wait in seconds for each result; None: as long as it takes.

        Returns:
            For each output, its buffers in the order of the items; an item that failed has a buffer
            in error (`Buffer.error`) in its place.

        Raises:
            ValueError: the numbers of items differ, or the model takes no inputs.
        """
        if not self._inputs:
            raise ValueError(
                "the model takes no inputs, so nothing says how many items; call infer"
            )
        columns = self._by_port(inputs)
        counts = sorted({len(column) for column in columns.values()})
        if len(counts) > 1:
            raise ValueError(f"got {counts} items on the inputs; expected the same number on each")
        stream = self._flow.create_stream_io()
        return list(stream.exchange(columns, timeout).values())

    def reload(self) -> None:
        """Loads what is at the path now (its newest version) in the place of what runs.

        On the calling thread, beside the traffic: no request fails or waits for it.

        Raises:
            FlowUnitError: it does not load; the model goes on as it was.
            StreamClosed: the model does not run.
        """
        self._flow.reload(_NODE)

    def stats(self) -> "NodeStats":
        """Returns the figures of the model's node: calls, batch sizes, time."""
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
        # A model without inputs has a trigger in their place.
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
    """Returns the unit that runs what is at a path; the arguments are those of `Model`.

    ``signature`` is of a SavedModel, and its node's default; empty: the option's own.

    Raises:
        EngineError, ConfigError, MissingDependencyError: as `Model`.
    """
    if path.is_dir() and any(path.glob("*.toml")):
        if inputs or outputs or engine:
            raise ConfigError(
                f"{path}: inputs, outputs and engine are what its TOML says; give none"
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
    """Returns the graph of one node that runs a model.

    Args:
        spec: The model's unit.
        attributes: Those of the node.
        inputs: The graph's inputs: name -> port of the model.
        outputs: The graph's outputs, likewise.
        node: The node's name.
    """
    ends = [NodeConfig(name, {"type": "input"}) for name in inputs]
    ends += [NodeConfig(name, {"type": "output"}) for name in outputs]
    edges = [EdgeConfig(PortRef(name), PortRef(node, port)) for name, port in inputs.items()]
    edges += [EdgeConfig(PortRef(node, port), PortRef(name)) for name, port in outputs.items()]
    nodes = (NodeConfig(node, attributes), *ends)
    return FlowConfig(nodes, tuple(edges), flow={"name": spec.name})
