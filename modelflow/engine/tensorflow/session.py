"""A frozen graph, ready to run in a session.

A session's callable costs about a fifth of a concrete function's call (28 against 150 us for a
small network), reads NumPy arrays where they lie if they are aligned, and folds the constants that
the weights of a frozen graph are (25 % on ResNet-50 with one image).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import Arrays, LoadedModel, TensorSpec, unknown_port
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.errors import EngineError

__all__ = ["SessionModel", "engine_error", "numpy_dtype", "tensor_spec"]


_LISTING = ("Graph execution error:", "Detected at node", "[[")


class SessionModel(LoadedModel):
    """A graph without variables, on one device."""

    def __init__(
        self,
        path: Path,
        graph_def: Any,
        inputs: Sequence[tuple[str, str]],
        outputs: Sequence[tuple[str, str]],
        device: str,
    ) -> None:
        """Imports the graph and makes the session.

        Args:
            path: The model's file, for messages.
            graph_def: The graph; changed (its nodes are put on ``device``).
            inputs: Pairs of port and tensor, in the order of the unit's ports.
            outputs: The same for the outputs.
            device: TensorFlow's name of the device.

        Raises:
            EngineError: no such tensor, or an output that needs a placeholder without a port.
        """
        tf = load_tensorflow()
        self._path = path
        self._errors = tf.errors
        graph = _placed(path, graph_def, device)
        feeds = [_tensor(path, graph, "input", tensor) for _, tensor in inputs]
        fetches = [_tensor(path, graph, "output", tensor) for _, tensor in outputs]
        _require_fed(path, feeds, fetches)
        self.inputs = _specs(inputs, feeds)
        self.outputs = _specs(outputs, fetches)
        # One tensor may stand for two ports, and one that is fed cannot be fetched.
        with graph.as_default():
            ways = {fetch.name: tf.identity(fetch).name for fetch in fetches}
        self._feeds = tuple(port for port, _ in inputs)
        self._fetches = tuple(
            (port, list(ways).index(fetch.name))
            for (port, _), fetch in zip(outputs, fetches, strict=True)
        )
        self._session = tf.compat.v1.Session(graph=graph)
        self._call = _callable(self._session, [t.name for t in feeds], list(ways.values()))

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        try:
            values = self._call(*[inputs[port] for port in self._feeds])
        except self._errors.OpError as error:
            raise engine_error(self._path, error) from error
        return {port: values[place] for port, place in self._fetches}

    def close(self) -> None:
        """Frees the session and with it the weights."""
        self._call = _closed
        self._session.close()


def numpy_dtype(path: Path, name: str, dtype: Any) -> np.dtype[Any]:
    """Returns TensorFlow's ``dtype`` of the tensor ``name`` as NumPy's.

    Raises:
        EngineError: it is none that NumPy knows (a resource).
    """
    try:
        found: np.dtype[Any] = np.dtype(dtype.as_numpy_dtype)
    except (TypeError, KeyError) as error:
        message = f"model {path}: the tensor {name!r} is of type {dtype.name}; expected an array"
        raise EngineError(message) from error
    return found


def tensor_spec(path: Path, port: str, tensor: Any) -> TensorSpec:
    """Returns the description of a tensor (of anything with TensorFlow's dtype and shape)."""
    shape = load_tensorflow().TensorShape(tensor.shape)
    known = None if shape.rank is None else tuple(shape.as_list())
    return TensorSpec(port, numpy_dtype(path, port, tensor.dtype), known)


def engine_error(path: Path, error: Any) -> EngineError:
    """Returns TensorFlow's error as ours: its kind and its own sentence, without the listing."""
    lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
    sentence = next((line for line in lines if not line.startswith(_LISTING)), "no message")
    return EngineError(f"model {path}: {type(error).__name__}: {sentence}")


def _placed(path: Path, graph_def: Any, device: str) -> Any:
    tf = load_tensorflow()
    for node in graph_def.node:
        node.device = device
    for function in graph_def.library.function:
        for node in function.node_def:
            node.device = device
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
    except (ValueError, tf.errors.OpError) as error:
        message = f"model {path}: TensorFlow {tf.__version__} does not accept the graph: {error}"
        raise EngineError(message) from error
    return graph


def _tensor(path: Path, graph: Any, what: str, name: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        known = _placeholders(graph) if what == "input" else _results(graph)
        specs = [tensor_spec(path, tensor.op.name, tensor) for tensor in known]
        raise EngineError(unknown_port(path, what, name, specs)) from error


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
            message = (
                f"model {path}: the outputs need the input {operation.name!r}, which no port "
                "feeds; declare an input of that name"
            )
            raise EngineError(message)
        needed = [*operation.inputs, *(t for c in operation.control_inputs for t in c.outputs[:1])]
        waiting += [t for t in needed if t.name not in fed and t.name not in seen]
        seen.update(tensor.name for tensor in needed)


def _specs(ports: Sequence[tuple[str, str]], tensors: Sequence[Any]) -> tuple[TensorSpec, ...]:
    return tuple(
        tensor_spec(Path(tensor.name), port, tensor)
        for (port, _), tensor in zip(ports, tensors, strict=True)
    )


def _callable(session: Any, feeds: list[str], fetches: list[str]) -> Any:
    from tensorflow.core.protobuf import config_pb2

    options = config_pb2.CallableOptions(feed=feeds, fetch=fetches)
    # Session.make_callable, the documented twin, goes through Session.run where there are feeds.
    return session._make_callable_from_options(options)


def _closed(*_: Any) -> Any:
    message = "the model is closed"
    raise EngineError(message)
