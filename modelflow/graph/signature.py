"""The signature of a graph: its inputs and outputs with their types and shapes.

``image [type=input] -> decode -> resize -> infer -> scores [type=output]`` has the input ``image``
(bytes, no tensor). Its output ``scores`` is the tensor of the model's output, one for each image.
``[serve]`` may add facts that no unit or model declares, but may not contradict a declaration.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from modelflow.config.flow_config import ServePort
from modelflow.errors import Finding, GraphError, did_you_mean
from modelflow.graph.graph import Graph
from modelflow.graph.graph_port import GraphPort, Signature, tensor_text
from modelflow.graph.node import Endpoint
from modelflow.wire.tensor import DATATYPES, TensorSpec, shape_text

ModelTensor = Callable[[str, str], TensorSpec | None]


class GraphFacts(Protocol):
    """The facts of a graph that runs or will run; `Flow.scheduler` implements this protocol."""

    @property
    def single_outputs(self) -> Collection[str]:
        """The outputs with exactly one item for each item that is sent."""

    def tensor(self, node: str, port: str, /) -> TensorSpec | None:
        """Returns the tensor that the loaded model of a node has at a port, or None if unknown."""


def signature_of(graph: Graph, facts: GraphFacts) -> Signature:
    """Returns the names, types and shapes of the graph's inputs and outputs.

    The loaded models give the facts while the flow runs, and the units' declarations before.
    ``[serve]`` in the graph file adds missing facts.

    Args:
        graph: The checked graph.
        facts: `Flow.scheduler`.
    """

    def port_of(name: str, serve: Mapping[str, ServePort], *, is_single: bool) -> GraphPort:
        said = serve.get(name, _UNSAID)
        ends = _ends(graph, name)
        known = [tensor for end in ends if (tensor := _tensor(graph, end, facts.tensor))]
        return GraphPort(
            name,
            next((graph.port(end).description for end in ends), ""),
            _join(name, said, known[0] if known else None),
            is_single,
            said.batched,
            said.labels,
            bool(ends) and all(graph.port(end).is_trigger for end in ends),
            said.format,
        )

    serve = graph.config.serve
    return Signature(
        tuple(port_of(name, serve.input, is_single=True) for name in graph.inputs),
        tuple(
            port_of(name, serve.output, is_single=name in facts.single_outputs)
            for name in graph.outputs
        ),
    )


def contradictions(graph: Graph, model_tensor: ModelTensor | None = None) -> Iterator[Finding]:
    """Yields a finding for each wrong entry of ``[serve]``: an unknown port, or a contradiction.

    Args:
        graph: The graph.
        model_tensor: `GraphFacts.tensor` of loaded models, or None before models are loaded.
    """
    serve = graph.config.serve
    for side, names, ports in (
        ("input", graph.inputs, serve.input),
        ("output", graph.outputs, serve.output),
    ):
        for name, said in ports.items():
            where = f"[serve.{side}.{name}]"
            if name not in names:
                near, known = did_you_mean(name, names), ", ".join(names) or "none"
                message = f"{where}: the graph has no {side} {name!r}{near} ({side}s: {known})"
                yield Finding(said.location, message, error=GraphError)
                continue
            known_ends = {end: _tensor(graph, end, model_tensor) for end in _ends(graph, name)}
            for end, tensor in known_ends.items():
                if tensor is not None and not _agree(said, tensor):
                    message = (
                        f"{where}: says {_describe(said)}; port {end.port!r} of node "
                        f"{end.node!r} is {tensor_text(tensor)}; say the same, or leave it out"
                    )
                    yield Finding(said.location, message, error=GraphError)
            is_typed = said.datatype is not None or any(known_ends.values())
            if model_tensor is not None and said.shape is not None and not is_typed:
                message = f"{where}: has a shape, but nothing gives the type; add datatype"
                yield Finding(said.location, message, error=GraphError)


_UNSAID = ServePort()


def _ends(graph: Graph, name: str) -> list[Endpoint]:
    """Returns the ports of units behind an input, or before an output."""
    behind = [edge.target for edge in graph.edges_from(name)]
    return behind or [edge.source for edge in graph.edges_into(name)]


def _tensor(graph: Graph, end: Endpoint, model_tensor: ModelTensor | None) -> TensorSpec | None:
    found = None if model_tensor is None else model_tensor(end.node, end.port)
    return found or graph.port(end).tensor


def _join(name: str, said: ServePort, known: TensorSpec | None) -> TensorSpec | None:
    """Combines two descriptions of an item; a free axis gets its length from the other description.

    A shape without a type is no tensor.
    """
    if said.datatype is None and known is None:
        return None
    dtype = DATATYPES[said.datatype] if said.datatype is not None else None
    if known is None:
        assert dtype is not None  # one of the two is known
        return TensorSpec(name, dtype, said.shape)
    shape = known.shape
    if shape is None or said.shape is None:
        shape = shape or said.shape
    else:
        shape = tuple(ours or theirs for ours, theirs in zip(said.shape, shape, strict=True))
    return replace(known, shape=shape)


def _agree(said: ServePort, known: TensorSpec) -> bool:
    if said.datatype is not None and DATATYPES[said.datatype] != known.dtype:
        return False
    if said.shape is None or known.shape is None:
        return True
    return len(said.shape) == len(known.shape) and all(
        ours is None or theirs is None or ours == theirs
        for ours, theirs in zip(said.shape, known.shape, strict=True)
    )


def _describe(said: ServePort) -> str:
    parts = [said.datatype, None if said.shape is None else shape_text(said.shape)]
    return " ".join(part for part in parts if part)
