"""A model's configuration as Triton's clients read it: ``/config``, ``ModelConfig``."""

from typing import Any

from modelflow.graph.graph_port import GraphPort
from modelflow.serve.model import Model
from modelflow.serve.tensors import served_tensor
from modelflow.wire.datatype import datatype_of

__all__ = ["PLATFORM", "configuration"]

PLATFORM = "modelflow_graph"
"""What a model runs on, as the protocol calls it."""

_TYPES = {"BYTES": "TYPE_STRING"}  # the others have the names of the protocol's datatypes


def configuration(model: Model) -> dict[str, Any]:
    """Returns it by the names of an ``inference.ModelConfig``.

    Where an item of every input is a row, axis 0 is left out of all shapes, as Triton does, and
    ``max_batch_size`` is what one call of the model takes; a request may have more rows.
    """
    signature, batching = model.signature, model.batching
    ports = (*signature.inputs, *signature.outputs)
    is_batched = bool(signature.inputs) and all(port.is_batched for port in ports)
    found: dict[str, Any] = {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "modelflow",
        "max_batch_size": batching.most if is_batched else 0,
        "input": [_port(port, is_batched) for port in signature.inputs],
        "output": [_port(port, is_batched) for port in signature.outputs],
        "model_transaction_policy": {
            "decoupled": not all(port.is_single for port in signature.outputs)
        },
    }
    if is_batched:
        found["dynamic_batching"] = {
            "preferred_batch_size": list(batching.sizes),
            "max_queue_delay_microseconds": int(batching.seconds * 1e6),
        }
    return found


def _port(port: GraphPort, is_batched: bool) -> dict[str, Any]:
    tensor = port.tensor if is_batched else served_tensor(port)
    if tensor is None:
        return {"name": port.name, "data_type": "TYPE_STRING", "dims": [] if is_batched else [-1]}
    name = datatype_of(tensor.dtype)
    dims = [-1] if tensor.shape is None else [-1 if n is None else n for n in tensor.shape]
    return {"name": port.name, "data_type": _TYPES.get(name, f"TYPE_{name}"), "dims": dims}
