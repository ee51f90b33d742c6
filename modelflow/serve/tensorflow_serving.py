"""TensorFlow Serving's protocol over served models: what REST and gRPC have in common."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from modelflow.graph.signature import GraphPort
from modelflow.serve.call import Call
from modelflow.serve.models import Models
from modelflow.serve.served_model import ServedModel
from modelflow.serve.tensors import as_tensor, served_tensor
from modelflow.wire.not_found import no_signature
from modelflow.wire.problem import Problem
from modelflow.wire.tensor import TensorSpec
from modelflow.wire.tf_serving.documents import SignatureInfo, VersionStatus
from modelflow.wire.tf_serving.predict import Types

__all__ = [
    "SIGNATURE",
    "check_signature",
    "no_examples",
    "outputs_of",
    "signatures_of",
    "statuses_of",
    "types_of",
]

SIGNATURE = "serving_default"
"""The name of a graph's only signature."""


def check_signature(name: str) -> None:
    """Checks that a request is for the only signature; empty: for the default one, which it is.

    Raises:
        Problem: it is for another.
    """
    if name not in ("", SIGNATURE):
        raise no_signature(name, [SIGNATURE])


def no_examples() -> Problem:
    """Returns what a request to classify or regress is answered."""
    message = "Expected classification or regression signature; the model has predict alone"
    return Problem(message)


def types_of(model: ServedModel) -> Types:
    """Returns the element types of a model's inputs; None: it takes what comes."""
    return {
        port.name: None if port.tensor is None else port.tensor.dtype
        for port in model.signature.inputs
    }


def outputs_of(call: Call) -> dict[str, npt.NDArray[Any]]:
    """Returns the outputs of a call that is over, as arrays.

    Raises:
        Problem: the request failed.
    """
    return {name: as_tensor(value) for name, value in call.outputs().items()}


def signatures_of(model: ServedModel) -> Mapping[str, SignatureInfo]:
    """Returns the signatures of a model, by name."""
    signature = model.signature
    info = SignatureInfo(_tensors(signature.inputs), _tensors(signature.outputs))
    return MappingProxyType({SIGNATURE: info})


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
