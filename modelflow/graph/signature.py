"""What a graph takes and gives: its inputs and outputs with their types and shapes.

``image [type=input] -> decode -> resize -> infer -> scores [type=output]`` takes ``image`` (bytes:
no tensor), and gives ``scores``, a tensor of what the model's output says, one for each image.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from modelflow.graph.graph import Graph
from modelflow.unit.port import Port
from modelflow.wire.tensor import TensorSpec

__all__ = ["GraphPort", "Signature", "signature_of"]


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


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a graph, in file order."""

    inputs: tuple[GraphPort, ...]
    """What the graph takes."""
    outputs: tuple[GraphPort, ...]
    """What it gives."""


def signature_of(
    graph: Graph,
    single_outputs: Collection[str],
    model_tensor: Callable[[str, str], TensorSpec | None],
) -> Signature:
    """Returns the signature of a graph.

    Args:
        graph: The checked graph.
        single_outputs: The outputs that give one item for each that is sent.
        model_tensor: Gives, for a node and a port, what its loaded model says; None: no model.
    """

    def port_of(name: str, node: str, port: str, is_single: bool) -> GraphPort:
        spec = graph.nodes[node].spec
        ports: tuple[Port, ...] = () if spec is None else (*spec.inputs, *spec.outputs)
        found = next((declared for declared in ports if declared.name == port), Port(port))
        tensor = model_tensor(node, port) or found.tensor
        return GraphPort(name, found.description, tensor, is_single)

    inputs = []
    for name in graph.inputs:
        ends = [edge.target for edge in graph.edges_from(name)]
        found = [port_of(name, end.node, end.port, True) for end in ends]
        inputs.append(next((port for port in found if port.tensor is not None), found[0]))
    outputs = [
        port_of(name, edge.source.node, edge.source.port, name in single_outputs)
        for name in graph.outputs
        for edge in list(graph.edges_into(name))[:1]
    ]
    return Signature(tuple(inputs), tuple(outputs))
