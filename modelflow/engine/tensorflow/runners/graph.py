"""Prepares a graph without variables to run in the way that suits its device."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from modelflow.device import CPU
from modelflow.engine.engine import LoadedModel, LoadRequest
from modelflow.engine.tensorflow import settings
from modelflow.engine.tensorflow.runners.placed_graph import PlacedGraph
from modelflow.engine.tensorflow.runners.session import SessionModel, make_plain
from modelflow.engine.tensorflow.runners.tensors import TensorModel


def graph_model(
    request: LoadRequest,
    graph_def: Any,
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
    *,
    has_free_shapes: bool = False,
) -> LoadedModel:
    """Returns a model of a graph; on a GPU the model shares memory with PyTorch, if installed.

    Args:
        request: Path, device and options.
        graph_def: The graph. The function changes it: it puts the nodes on the device.
        inputs: Pairs of port and tensor, in the order of the unit's ports.
        outputs: The same for the outputs.
        has_free_shapes: Whether the model takes values of other shapes than the inputs', if the
            graph accepts them.

    Raises:
        EngineError: A tensor does not exist, or an output needs a placeholder without a port.
    """
    device, is_compiled = settings.device_name(request.device), request.options.xla
    placed = PlacedGraph(request.path, graph_def, inputs, outputs, device, is_compiled=is_compiled)
    holds_text = any(spec.dtype.hasobject for spec in (*placed.inputs, *placed.outputs))
    if request.device.kind == CPU.kind or holds_text or find_spec("torch") is None:
        model = SessionModel(placed)
        if has_free_shapes:
            model.accept_other_shapes(placed, make_plain(placed), is_constant=True)
        return model
    return TensorModel(placed, request.device)
