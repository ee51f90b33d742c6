"""What clients see of a model's inputs and outputs, and its outputs as tensors."""

from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.graph.graph_port import GraphPort
from modelflow.serve.rows import as_bytes
from modelflow.wire.tensor import TensorSpec

__all__ = ["as_tensor", "served_tensor"]


def served_tensor(port: GraphPort) -> TensorSpec | None:
    """Returns the tensor of a port as clients see it, with the batch as axis 0; None: anything."""
    tensor = port.tensor
    if tensor is None or not port.is_batched or tensor.shape is None:
        return tensor
    return TensorSpec(tensor.name, tensor.dtype, (None, *tensor.shape))


def as_tensor(value: npt.NDArray[Any] | list[Any]) -> npt.NDArray[Any]:
    """Returns what came out of an output as an array; what is none as an array of JSON texts."""
    if isinstance(value, np.ndarray):
        return value
    texts = np.empty(len(value), dtype=object)
    texts[:] = [as_bytes(one) for one in value]
    return texts
