"""Documents of TensorFlow Serving's REST interface without tensors: status, metadata, errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from modelflow.wire.json_writer import json_of
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.tensor import TensorSpec
from modelflow.wire.tf_serving.tensor_proto import type_name

DEFAULT_SIGNATURE = "serving_default"
"""The signature of a request that names none."""

PREDICT_METHOD = "tensorflow/serving/predict"
CLASSIFY_METHOD = "tensorflow/serving/classify"
REGRESS_METHOD = "tensorflow/serving/regress"
# TensorFlow's name of the function that computes the outputs of a SavedModel.
_FUNCTION = "StatefulPartitionedCall"


class State(StrEnum):
    """The state of a version between its start and its end."""

    START = "START"
    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """A version of a model.

    Attributes:
        version: The version number.
        state: The state of the version.
        error_code: The code of the failure, or ``OK``.
        error_message: The message of the failure.
    """

    version: int
    state: State
    error_code: str = "OK"
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """The inputs and outputs of a signature.

    Attributes:
        inputs: The input tensors, with the batch as axis 0. None for an input of any type.
        outputs: The output tensors.
        method_name: The kind of the signature.
        tensor_names: The names of the tensors in the model's file. A tensor without such a name
            gets the name that TensorFlow exports, ``serving_default_x:0`` or
            ``StatefulPartitionedCall:0``.
    """

    inputs: Mapping[str, TensorSpec | None]
    outputs: Mapping[str, TensorSpec | None]
    method_name: str = PREDICT_METHOD
    tensor_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def status_document(versions: Sequence[VersionStatus]) -> bytes:
    """Returns the answer to ``GET /v1/models/NAME``, with the newest version first."""
    ordered = sorted(versions, key=lambda one: one.version, reverse=True)
    return json_of(
        {
            "model_version_status": [
                {
                    "version": str(one.version),
                    "state": str(one.state),
                    "status": {"error_code": one.error_code, "error_message": one.error_message},
                }
                for one in ordered
            ]
        }
    )


def metadata_document(name: str, version: int, signatures: Mapping[str, SignatureInfo]) -> bytes:
    """Returns the answer to ``GET /v1/models/NAME/metadata``."""
    return json_of(
        {
            "model_spec": {"name": name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": _signature_map(signatures)},
        }
    )


def signature_message(signatures: Mapping[str, SignatureInfo]) -> Any:
    """Returns the signatures as a ``tensorflow.serving.SignatureDefMap``."""
    message = TF_SERVING["tensorflow.serving.SignatureDefMap"]()
    from google.protobuf import json_format  # type: ignore[import-untyped]

    return json_format.ParseDict(_signature_map(signatures), message, ignore_unknown_fields=True)


def _signature_map(signatures: Mapping[str, SignatureInfo]) -> dict[str, Any]:
    return {"signature_def": {key: _signature(key, held) for key, held in signatures.items()}}


def _signature(key: str, signature: SignatureInfo) -> dict[str, Any]:
    own, places = signature.tensor_names, sorted(signature.outputs)
    return {
        "inputs": {
            name: _info(own.get(name, f"{key}_{name}:0"), tensor)
            for name, tensor in signature.inputs.items()
        },
        "outputs": {
            name: _info(own.get(name, f"{_FUNCTION}:{places.index(name)}"), tensor)
            for name, tensor in signature.outputs.items()
        },
        "method_name": signature.method_name,
        "defaults": {},
    }


def _info(tensor_name: str, tensor: TensorSpec | None) -> dict[str, Any]:
    shape = None if tensor is None else tensor.shape
    dims = [{"size": str(-1 if extent is None else extent), "name": ""} for extent in shape or ()]
    return {
        "dtype": "DT_INVALID" if tensor is None else type_name(tensor.dtype),  # None: unknown type
        "tensor_shape": {"dim": dims, "unknown_rank": shape is None},
        "name": tensor_name,
    }
