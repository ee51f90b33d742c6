"""Finds the operations, variables and tables that outputs of a graph depend on."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from modelflow.engine.tensorflow.runners.function import is_assigning
from modelflow.engine.tensorflow.runners.inlined import list_called

_STATE = re.compile(
    r"(VarHandleOp|Variable|\w*HashTable|\w*HashTableOfTensors|\w*Queue|Stack)(V2)?"
)


@dataclass(frozen=True)
class Reached:
    """The part of a graph that some outputs depend on.

    Attributes:
        operations: The types of the operations, including those in functions.
        states: The names of the variables and tables.
    """

    operations: frozenset[str]
    states: frozenset[str]


def find_reached(graph_def: Any, tensors: Iterable[str]) -> Reached:
    """Finds the part of a graph that tensors depend on: ``["y:0"]`` gives all inputs of "y"."""
    nodes = {node.name: node for node in graph_def.node}
    waiting = [_node_name(tensor) for tensor in tensors]
    found: dict[str, Any] = {}
    while waiting:
        node = nodes.get(waiting.pop())
        if node is not None and node.name not in found:
            found[node.name] = node
            waiting += map(_node_name, node.input)
    states = (name for name, node in found.items() if _STATE.fullmatch(node.op))
    return Reached(frozenset(_operations(graph_def, found.values())), frozenset(states))


def is_assigned(meta_graph: Any, key: str) -> bool:
    """Returns True if a signature uses a variable or table that any signature assigns."""
    by_key = {
        name: find_reached(meta_graph.graph_def, [t.name for t in definition.outputs.values()])
        for name, definition in meta_graph.signature_def.items()
        if not name.startswith("__")
    }
    return any(
        is_assigning(reached.operations) and reached.states & by_key[key].states
        for reached in by_key.values()
    )


def _node_name(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]


def _operations(graph_def: Any, nodes: Iterable[Any]) -> Iterator[str]:
    """Yields the types of some nodes, and of the nodes in the functions that they call."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node.op
        for name in (node.op, *list_called(node)):
            function = functions.pop(name, None)  # popped, so each function is visited once
            waiting += () if function is None else function.node_def
