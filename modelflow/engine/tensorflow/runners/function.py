"""Traced functions: frozen into a session's graph where they can be, else called as they are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import Arrays, LoadedModel, LoadRequest
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.graph import graph_model
from modelflow.engine.tensorflow.runners.session import engine_error
from modelflow.errors import EngineError
from modelflow.wire.tensor import TensorSpec

__all__ = ["FunctionModel", "can_freeze", "freeze"]

# A graph is one protobuf message, which holds 2 GiB; half of it leaves room for the graph itself.
_LARGEST = 1 << 30


class FunctionModel(LoadedModel):
    """A function that cannot be frozen: it holds tables, or more than a graph may."""

    def __init__(
        self,
        request: LoadRequest,
        call: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        device: str,
    ) -> None:
        """Takes the function.

        Args:
            request: Path and options.
            call: Port -> tensor in, port -> tensor out; it keeps its variables alive.
            inputs: The input ports.
            outputs: The output ports.
            device: TensorFlow's name of the device, where its variables are.

        Raises:
            EngineError: it is to be compiled by XLA, which is for graphs that can be frozen.
        """
        if request.options.xla:
            message = (
                f"model {request.path}: xla=true: the model holds tables, or more than 1 GiB of "
                "weights; such a model cannot be compiled: leave xla out"
            )
            raise EngineError(message)
        self._tf = load_tensorflow()
        self._path, self._call, self._device = request.path, call, device
        self.inputs, self.outputs = inputs, outputs

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Runs one batch; see `LoadedModel.run`."""
        tf = self._tf
        try:
            with tf.device(self._device):
                values = self._call({port: tf.constant(data) for port, data in inputs.items()})
        except tf.errors.OpError as error:
            raise engine_error(self._path, error) from error
        return {port.name: np.asarray(values[port.name]) for port in self.outputs}

    def close(self) -> None:
        """Frees the function and its variables."""
        self._call = _closed


def can_freeze(function: Any) -> bool:
    """Tells whether all that a concrete function holds are variables that fit into one graph."""
    handles = {id(variable.handle) for variable in function.graph.variables}
    size = sum(v.dtype.size * (v.shape.num_elements() or 0) for v in function.graph.variables)
    return size < _LARGEST and all(id(tensor) in handles for tensor in function.captured_inputs)


def freeze(
    request: LoadRequest,
    function: Any,
    inputs: Sequence[tuple[str, int]],
    outputs: Sequence[tuple[str, int]],
    device: str,
) -> LoadedModel:
    """Returns a concrete function as a graph whose variables are constants.

    Args:
        request: Path, device and options.
        function: One that `can_freeze`.
        inputs: Pairs of port and place among the function's flat inputs.
        outputs: Pairs of port and place among its flat outputs.
        device: TensorFlow's name of the device.
    """
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    frozen = convert_variables_to_constants_v2(function)
    return graph_model(
        request,
        frozen.graph.as_graph_def(),
        [(port, frozen.inputs[place].name) for port, place in inputs],
        [(port, frozen.outputs[place].name) for port, place in outputs],
        device,
    )


def _closed(_: Mapping[str, Any]) -> Mapping[str, Any]:
    message = "the model is closed"
    raise EngineError(message)
