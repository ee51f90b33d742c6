"""Traced functions: frozen into a session's graph if possible, else called directly.

A function can be frozen if it contains variables only and assigns none: no table, no state.
"""

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import Arrays, LoadedModel, LoadRequest, model_error, refuse_closed
from modelflow.engine.tensorflow import settings
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.engine.tensorflow.runners.graph import graph_model
from modelflow.engine.tensorflow.runners.session import engine_error
from modelflow.wire.tensor import TensorSpec

_log = logging.getLogger(__name__)

# Operations that change a variable, a table or a queue.
_ASSIGNS = re.compile(
    r"Assign|Resource(Apply|Scatter|StridedSliceAssign)|Scatter(Add|Sub|Update|NdUpdate)$|"
    r"(LookupTable|Mutable\w*Table)(Insert|Remove)|Stack(Push|Pop)|RngReadAndSkip|Queue(Enqueue|Dequeue)"
)

# A graph is one protobuf message of at most 2 GiB. Half of that leaves room for the graph itself.
_LARGEST = 1 << 30


class FunctionModel(LoadedModel):
    """A function that cannot be frozen, because of tables, state, or weights of 1 GiB and more."""

    def __init__(
        self,
        request: LoadRequest,
        call: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        """Takes the function.

        Args:
            request: Path, options, and the device of the function's variables.
            call: Maps port -> tensor to port -> tensor, and keeps the function's variables alive.
            inputs: The input ports.
            outputs: The output ports.

        Raises:
            EngineError: XLA is requested, which compiles only graphs that can be frozen.
        """
        refuse_xla(request)
        self._tf = load_tensorflow()
        self._path, self._call = request.path, call
        self._device = settings.device_name(request.device)
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
        self._call = refuse_closed


def refuse_xla(request: LoadRequest) -> None:
    """Raises an error if XLA is requested for a model that cannot be frozen.

    Raises:
        EngineError: ``xla=true``.
    """
    if request.options.xla:
        raise model_error(
            request.path,
            "xla=true: the model holds tables or state, or more than 1 GiB "
            "of weights; such a model cannot be compiled: leave xla out",
        )


def is_assigning(operations: Iterable[str]) -> bool:
    """Returns True if an operation, given by its type, assigns a variable or changes a table."""
    return any(map(_ASSIGNS.match, operations))


def list_operations(graph_def: Any) -> Iterator[str]:
    """Yields the type of every operation of a graph and of the functions of its library."""
    functions = (function.node_def for function in graph_def.library.function)
    return (node.op for node in itertools.chain(graph_def.node, *functions))


def freeze(
    request: LoadRequest,
    function: Any,
    inputs: Sequence[tuple[str, int]],
    outputs: Sequence[tuple[str, int]],
    *,
    has_free_shapes: bool = False,
) -> LoadedModel | None:
    """Turns a concrete function into a graph whose variables are constants.

    Args:
        request: Path, device and options.
        function: The function.
        inputs: Pairs of port and position among the function's flat inputs.
        outputs: Pairs of port and position among its flat outputs.
        has_free_shapes: See `graph_model`.

    Returns:
        The model, or None if the function cannot be frozen.
    """
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    handles = {id(variable.handle) for variable in function.graph.variables}
    size = sum(v.dtype.size * (v.shape.num_elements() or 0) for v in function.graph.variables)
    if size >= _LARGEST or any(id(tensor) not in handles for tensor in function.captured_inputs):
        return None
    if is_assigning(list_operations(function.graph.as_graph_def())):
        return None
    try:
        frozen = convert_variables_to_constants_v2(function)
    except (ValueError, KeyError, NotImplementedError, load_tensorflow().errors.OpError) as error:
        _log.info("model %s: it runs with its variables, TensorFlow: %s", request.path, error)
        return None
    return graph_model(
        request,
        frozen.graph.as_graph_def(),
        [(port, frozen.inputs[place].name) for port, place in inputs],
        [(port, frozen.outputs[place].name) for port, place in outputs],
        has_free_shapes=has_free_shapes,
    )
