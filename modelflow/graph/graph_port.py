"""Inputs and outputs of a graph, with all facts that are known without the graph."""

from dataclasses import dataclass

from modelflow.wire.tensor import TensorSpec, datatype_of, shape_text


@dataclass(frozen=True, slots=True)
class GraphPort:
    """An input or output of a graph."""

    name: str
    """The name."""
    description: str
    """The description by the unit behind the input, or before the output."""
    tensor: TensorSpec | None
    """The tensor of one item, without a batch axis.

    None if no type is known, or if items are no tensors. Unknown axes are None."""
    is_single: bool
    """Whether the port has exactly one item for each item that is sent.

    Then a batch of requests can be split and joined again. An output behind a condition, an expand
    or a stream unit has any number of items."""
    is_batched: bool = True
    """Whether a request's array is split along its first axis, one row for each item."""
    labels: tuple[str, ...] = ()
    """The class names, for outputs whose last axis has scores."""
    is_trigger: bool = False
    """Whether the items have no value, and each item only requests one call of the units behind."""
    format: str | None = None
    """The order of the axes of an image, ``NCHW`` or ``NHWC``, or None if no order is stated."""

    def __str__(self) -> str:
        """Returns a text such as ``image: UINT8 (?, ?, 3), an item a row``."""
        tensor = "any type" if self.tensor is None else tensor_text(self.tensor)
        labels = f", {len(self.labels)} labels" if self.labels else ""
        return f"{self.name}: {tensor}, {'an item a row' if self.is_batched else 'whole'}{labels}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a graph, in file order."""

    inputs: tuple[GraphPort, ...]
    """The inputs of the graph."""
    outputs: tuple[GraphPort, ...]
    """The outputs of the graph."""


def tensor_text(tensor: TensorSpec) -> str:
    """Returns a tensor as text for messages: ``FP32 (?, 3)``."""
    shape = "" if tensor.shape is None else f" {shape_text(tensor.shape)}"
    return f"{datatype_of(tensor.dtype)}{shape}"
