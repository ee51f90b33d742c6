"""The documents and messages of Open Inference that hold no tensors: metadata and errors."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from modelflow.wire.json_writer import json_of
from modelflow.wire.proto import OPEN_INFERENCE
from modelflow.wire.tensor import TensorSpec, datatype_of


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What is said of a tensor before there is one.

    Attributes:
        name: Its name.
        datatype: What the protocol calls its type; ``BYTES`` where anything is taken.
        shape: Its shape with the batch as axis 0, -1 for an axis that is free.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, tensor: TensorSpec | None) -> "TensorInfo":
        """Gives what is known of a tensor as the protocol says it; None: nothing is known."""
        if tensor is None:
            return cls(name, "BYTES", (-1,))
        shape = (None,) if tensor.shape is None else tensor.shape
        extents = tuple(-1 if extent is None else extent for extent in shape)
        return cls(name, datatype_of(tensor.dtype), extents)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is said of a model.

    Attributes:
        name: Its name.
        versions: The versions that can be asked for.
        platform: What it runs on: ``modelflow_graph``.
        inputs: The tensors that it takes.
        outputs: The tensors that it gives.
    """

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def document(self) -> bytes:
        """Returns it as ``GET /v2/models/NAME`` answers."""
        return json_of(asdict(self))

    def message(self) -> Any:
        """Returns it as a ``ModelMetadataResponse``."""
        return OPEN_INFERENCE["inference.ModelMetadataResponse"](**asdict(self))


def server_document(name: str, version: str, extensions: Sequence[str]) -> bytes:
    """Returns what ``GET /v2`` answers."""
    return json_of({"name": name, "version": version, "extensions": list(extensions)})


def server_message(name: str, version: str, extensions: Sequence[str]) -> Any:
    """Returns the same as a ``ServerMetadataResponse``."""
    return OPEN_INFERENCE["inference.ServerMetadataResponse"](
        name=name, version=version, extensions=extensions
    )
