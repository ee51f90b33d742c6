"""A graph without variables on one device, with the tensors of its ports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modelflow.engine.engine import model_error, unknown_port
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.wire.tensor import TensorSpec

# On the CPU XLA compiles only nodes with this mark.
_COMPILED = "_XlaCompile"


class PlacedGraph:
    """An imported and checked graph.

    Attributes:
        path: The model's file, for messages.
        graph: TensorFlow's graph.
        device: TensorFlow's name of the device of the nodes.
        inputs, outputs: The ports, in the order of the unit's ports.
        feeds, fetches: The tensors of the ports.
        is_compiled: Whether the nodes are marked for compilation by XLA.
    """

    def __init__(
        self,
        path: Path,
        graph: Any,
        inputs: Sequence[tuple[str, str]],
        outputs: Sequence[tuple[str, str]],
        device: str,
        *,
        is_compiled: bool = False,
    ) -> None:
        """Finds the ports, and imports a graph that is given as a ``GraphDef``.

        Args:
            path: See the class.
            graph: TensorFlow's graph, or a ``GraphDef``. The nodes of a ``GraphDef`` are put on
                ``device``.
            inputs: Pairs of port and tensor, in the order of the unit's ports.
            outputs: The same for the outputs.
            device: See the class.
            is_compiled: See the class.

        Raises:
            EngineError: A tensor does not exist, or an output needs a placeholder without a port.
        """
        self.path, self.device, self.is_compiled = path, device, is_compiled
        if not isinstance(graph, load_tensorflow().Graph):
            graph = _import(path, graph, device, is_compiled)
        self.graph = graph
        self.feeds = [_tensor(path, self.graph, "input", tensor) for _, tensor in inputs]
        self.fetches = [_tensor(path, self.graph, "output", tensor) for _, tensor in outputs]
        _require_fed(path, self.feeds, self.fetches)
        self.inputs = _specs(path, inputs, self.feeds)
        self.outputs = _specs(path, outputs, self.fetches)


def tensor_spec(path: Path, port: str, tensor: Any) -> TensorSpec:
    """Returns the description of a tensor, or of any object with a dtype and a shape.

    Raises:
        EngineError: NumPy has no such type (a resource).
    """
    tf = load_tensorflow()
    shape, dtype = tf.TensorShape(tensor.shape), tf.as_dtype(tensor.dtype)
    known = None if shape.rank is None else tuple(shape.as_list())
    try:
        found = np.dtype(dtype.as_numpy_dtype)
    except (TypeError, KeyError) as error:
        raise model_error(
            path, f"the tensor {port!r} is of type {dtype.name}; expected an array"
        ) from error
    return TensorSpec(port, found, known, False if known == () else None)


def _import(path: Path, graph_def: Any, device: str, is_compiled: bool) -> Any:
    tf = load_tensorflow()
    for node in graph_def.node:
        node.device = device
        if is_compiled and node.op != "Placeholder":
            node.attr[_COMPILED].b = True
    for function in graph_def.library.function:
        for node in function.node_def:
            node.device = device
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
    except (ValueError, tf.errors.OpError) as error:
        raise model_error(
            path, f"TensorFlow {tf.__version__} does not accept the graph: {error}"
        ) from error
    return graph


def _tensor(path: Path, graph: Any, what: str, name: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        known = _placeholders(graph) if what == "input" else _results(graph)
        raise unknown_port(
            path, what, name, [tensor_spec(path, tensor.op.name, tensor) for tensor in known]
        ) from error


def _placeholders(graph: Any) -> list[Any]:
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def _results(graph: Any) -> list[Any]:
    return [
        output
        for op in graph.get_operations()
        if op.type not in ("Const", "Placeholder", "Assert")
        for output in op.outputs
        if not output.consumers()
    ]


def _require_fed(path: Path, feeds: Sequence[Any], fetches: Sequence[Any]) -> None:
    fed = {tensor.name for tensor in feeds}
    waiting = [fetch for fetch in fetches if fetch.name not in fed]
    seen = {tensor.name for tensor in waiting}
    while waiting:
        operation = waiting.pop().op
        if operation.type == "Placeholder":
            raise model_error(
                path,
                f"the outputs need the input {operation.name!r}, which no port "
                "feeds; declare an input of that name",
            )
        needed = [*operation.inputs, *(t for c in operation.control_inputs for t in c.outputs[:1])]
        waiting += [t for t in needed if t.name not in fed and t.name not in seen]
        seen.update(tensor.name for tensor in needed)


def _specs(
    path: Path, ports: Sequence[tuple[str, str]], tensors: Sequence[Any]
) -> tuple[TensorSpec, ...]:
    return tuple(
        tensor_spec(path, port, tensor) for (port, _), tensor in zip(ports, tensors, strict=True)
    )
