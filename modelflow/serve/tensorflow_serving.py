"""TensorFlow Serving's protocol over served models: what REST and gRPC have in common."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.graph.graph_port import GraphPort
from modelflow.serve.model import Inference, Model
from modelflow.serve.repository.models import Models
from modelflow.serve.tensors import as_tensor, served_tensor
from modelflow.wire.tensor import TensorSpec
from modelflow.wire.tf_serving.documents import SignatureInfo, VersionStatus

__all__ = [
    "outputs_of",
    "signatures_of",
    "statuses_of",
]


def outputs_of(call: Inference) -> dict[str, npt.NDArray[Any]]:
    """Returns the outputs of a call that is over, as arrays.

    Raises:
        Problem: the request failed.
    """
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, value in call.outputs().items():
        tensors[name] = value if isinstance(value, np.ndarray) else as_tensor(value)
    return tensors


def signatures_of(model: Model) -> Mapping[str, SignatureInfo]:
    """Returns the signatures of a model, by name."""
    found = {}
    for one in model.all_signatures():
        inputs, outputs = _tensors(one.signature.inputs), _tensors(one.signature.outputs)
        found[one.signature_name] = SignatureInfo(inputs, outputs, one.method, one.tensor_names)
    return MappingProxyType(found)


def statuses_of(
    models: Models, name: str, version: str = "", label: str = ""
) -> list[VersionStatus]:
    """Returns how the versions of a model are: all of them, where none is named.

    Raises:
        Problem: there is none.
    """
    return models.statuses(name, version, label)


def _tensors(ports: tuple[GraphPort, ...]) -> dict[str, TensorSpec | None]:
    return {port.name: served_tensor(port) for port in ports}
