"""Documents and messages of Open Inference without tensors: metadata and errors."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from modelflow.wire.json_writer import json_of
from modelflow.wire.proto import OPEN_INFERENCE
from modelflow.wire.tensor import TensorSpec, datatype_of


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The description of an input or output.

    Attributes:
        name: The name of the tensor.
        datatype: The protocol's name of the type. ``BYTES`` if any type is accepted.
        shape: The shape with the batch as axis 0, and -1 for a free axis.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, tensor: TensorSpec | None) -> "TensorInfo":
        """Returns the protocol's description of a tensor; None for a tensor of unknown type."""
        if tensor is None:
            return cls(name, "BYTES", (-1,))
        shape = (None,) if tensor.shape is None else tensor.shape
        extents = tuple(-1 if extent is None else extent for extent in shape)
        return cls(name, datatype_of(tensor.dtype), extents)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The description of a model.

    Attributes:
        name: The model's name.
        versions: The versions that clients can request.
        platform: The platform that runs the model: ``modelflow_graph``.
        inputs: The input tensors.
        outputs: The output tensors.
    """

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def document(self) -> bytes:
        """Returns the answer to ``GET /v2/models/NAME``."""
        return json_of(asdict(self))

    def message(self) -> Any:
        """Returns the description as a ``ModelMetadataResponse``."""
        return OPEN_INFERENCE["inference.ModelMetadataResponse"](**asdict(self))


def server_document(name: str, version: str, extensions: Sequence[str]) -> bytes:
    """Returns the answer to ``GET /v2``."""
    return json_of({"name": name, "version": version, "extensions": list(extensions)})


def server_message(name: str, version: str, extensions: Sequence[str]) -> Any:
    """Returns the server's metadata as a ``ServerMetadataResponse``."""
    return OPEN_INFERENCE["inference.ServerMetadataResponse"](
        name=name, version=version, extensions=extensions
    )
