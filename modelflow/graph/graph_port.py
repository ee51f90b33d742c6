"""An input or output of a graph, and all of them: what is known without the graph itself."""

from dataclasses import dataclass

from modelflow.wire.tensor import TensorSpec, datatype_of, shape_text


@dataclass(frozen=True, slots=True)
class GraphPort:
    """An input or output of a graph."""

    name: str
    """Its name."""
    description: str
    """What the unit behind it, or before it, says of what passes."""
    tensor: TensorSpec | None
    """One item as a tensor (without a batch axis), as far as that is known; None: it is not said,
    or items are no tensors."""
    is_single: bool
    """One item for each that is sent, so that a batch of requests may be split and joined again;
    an output behind a condition, an expand or a stream unit gives any number."""
    is_batched: bool = True
    """A request's array is cut along its first axis, an item a row; else it is one item."""
    labels: tuple[str, ...] = ()
    """The names of the classes, for outputs whose last axis is one of scores."""
    is_trigger: bool = False
    """The items carry no value: each asks the units behind it for one call."""

    def __str__(self) -> str:
        """Gives ``image: UINT8 (?, ?, 3), an item a row``."""
        tensor = "any type" if self.tensor is None else tensor_text(self.tensor)
        labels = f", {len(self.labels)} labels" if self.labels else ""
        return f"{self.name}: {tensor}, {'an item a row' if self.is_batched else 'whole'}{labels}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a graph, in file order."""

    inputs: tuple[GraphPort, ...]
    """What the graph takes."""
    outputs: tuple[GraphPort, ...]
    """What it gives."""


def tensor_text(tensor: TensorSpec) -> str:
    """Returns a tensor as it stands in messages: ``FP32 (?, 3)``."""
    shape = "" if tensor.shape is None else f" {shape_text(tensor.shape)}"
    return f"{datatype_of(tensor.dtype)}{shape}"
