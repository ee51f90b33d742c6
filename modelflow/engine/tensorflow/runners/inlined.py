"""Replaces the calls in a graph by the bodies of the called functions.

TensorFlow proves shapes within a graph, not through a call. ``y = f(x)`` with ``f(a) = 2 * a``
becomes the nodes ``y/inlined/a`` (``x`` itself), ``y/inlined/mul``, and ``y``, which returns that
product.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from modelflow.engine.tensorflow.library import load_tensorflow

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def inline_calls(graph: Any, outputs: Sequence[str]) -> Any:
    """Returns the part of a graph that some nodes need, with function bodies in place of calls.

    Args:
        graph: TensorFlow's graph.
        outputs: The names of the nodes.

    Returns:
        A ``GraphDef``. None if a function runs in another way than by a call (in a loop).
    """
    graph_util = load_tensorflow().compat.v1.graph_util
    graph_def = graph_util.extract_sub_graph(graph.as_graph_def(), outputs)
    functions = {function.signature.name: function for function in graph_def.library.function}
    inlined = type(graph_def)(versions=graph_def.versions)
    waiting = list(graph_def.node)
    with graph.as_default():  # this graph knows the functions that a body calls
        while waiting:
            node = waiting.pop()
            if node.op in _CALLS:
                waiting += _list_body(node, functions[node.attr["f"].func.name])
            elif node.op in functions or any(list_called(node)):
                return None
            else:
                inlined.node.append(node)
    return inlined


def list_called(node: Any) -> Iterator[str]:
    """Yields the names of the functions that a node runs."""
    for attribute in node.attr.values():
        yield from filter(None, (attribute.func.name, *(f.name for f in attribute.list.func)))


def _list_body(call: Any, function: Any) -> Iterator[Any]:
    """Yields the nodes of a function's body, and an identity node with the name of the call."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

    body, tensors = function_def_to_graph_def(function)
    inner = f"{call.name}/inlined/"
    given = [name for name in call.input if not name.startswith("^")]
    arguments = dict(zip((a.name for a in function.signature.input_arg), given, strict=True))
    for node in body.node:
        if node.name in arguments:
            source = [arguments[node.name]]
            yield _make_node("Identity", inner + node.name, source, node.attr["dtype"])
            continue
        node.attr.pop("_class", None)  # refers to nodes by their names before inlining
        node.name, names = inner + node.name, [_add_prefix(inner, name) for name in node.input]
        del node.input[:]
        node.input.extend(names)
        yield node
    results = function.signature.output_arg
    names = [inner + tensors[function.ret[result.name]] for result in results]
    names += [f"^{inner}{name}" for name in function.control_ret.values()]
    names += [name for name in call.input if name.startswith("^")]
    types = type(call.attr["f"])()
    types.list.type.extend(result.type for result in results)
    yield _make_node("IdentityN" if results else "NoOp", call.name, names, types)


def _make_node(op: str, name: str, inputs: Sequence[str], types: Any) -> Any:
    from tensorflow.core.framework import node_def_pb2

    node = node_def_pb2.NodeDef(op=op, name=name, input=inputs)
    if op != "NoOp":
        node.attr["T"].CopyFrom(types)
    return node


def _add_prefix(prefix: str, name: str) -> str:
    return f"^{prefix}{name[1:]}" if name.startswith("^") else prefix + name
