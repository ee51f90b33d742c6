"""Finds the memory that a call of a module may write to: its inputs, or its own state.

The answer comes from the graph, not from calls: a branch that no call has taken yet may write, too.
The call of an object, or a value that is carried around a loop, cannot be followed and counts as
both.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from modelflow.device.torch_memory import load_torch

INPUT, OWN = "input", "own"
_CALLS = ("prim::CallMethod", "prim::CallFunction", "prim::fork")


def find_written(module: Any) -> frozenset[str]:
    """Returns `INPUT`, `OWN`, both or neither.

    Args:
        module: A frozen TorchScript module, or the module of an exported program.
    """
    if isinstance(module, load_torch().jit.ScriptModule):
        return frozenset(_find_in_script(module.graph))
    return frozenset(_find_in_program(module.graph))


# -- TorchScript ----------------------------------------------------------------------------------


def _find_in_script(graph: Any) -> Iterator[str]:
    inputs = {value.unique() for value in graph.inputs()}
    for node in _list_nodes(graph):
        if node.kind() in _CALLS:
            yield from (INPUT, OWN)
        elif node.kind() == "prim::SetAttr":
            yield OWN
        else:
            arguments = _parse(node.schema())
            written = [at for at, (_, is_write) in enumerate(arguments) if is_write]
            values = list(node.inputs()) if written else []
            yield from _origins_in_script([values[at] for at in written], inputs)


def _list_nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _list_nodes(inner)


def _origins_in_script(values: Iterable[Any], inputs: set[int]) -> Iterator[str]:
    """Yields the owners of the memory of some values, except for memory of the call itself."""
    waiting, seen = list(values), set()
    while waiting:
        value = waiting.pop()
        if value.unique() in seen or "Tensor" not in str(value.type()):
            continue
        seen.add(value.unique())
        node = value.node()
        if value.unique() in inputs:
            yield INPUT
        elif node.kind() == "prim::Param":
            yield from (INPUT, OWN)
        elif node.kind() in ("prim::Constant", "prim::GetAttr"):
            yield OWN
        elif arguments := _parse(node.schema()):
            pairs = zip(arguments, node.inputs(), strict=True)
            waiting += [given for (is_alias, _), given in pairs if is_alias]
        else:  # a list, a branch
            waiting += node.inputs()
            waiting += [given for block in node.blocks() for given in block.outputs()]


@cache
def _parse(schema: str) -> list[tuple[bool, bool]]:
    """Returns two flags for each argument: results may share memory, calls write to memory."""
    if schema == "(no schema)":
        return []
    return _alias_of(load_torch()._C.parse_schema(schema))


def _alias_of(schema: Any) -> list[tuple[bool, bool]]:
    aliases = [argument.alias_info for argument in schema.arguments]
    # For a value taken out of a dict, the schema does not name the dict that it belongs to.
    is_part = any(one.alias_info for one in schema.returns) and not any(aliases)
    return [(is_part or alias is not None, bool(alias and alias.is_write)) for alias in aliases]


# -- exported programs ----------------------------------------------------------------------------


def _find_in_program(graph: Any) -> Iterator[str]:
    for node in graph.nodes:
        written = [given for given, (_, is_write) in _arguments(node) if is_write]
        yield from _origins_in_program(written)


def _origins_in_program(nodes: Iterable[Any]) -> Iterator[str]:
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting += node
            continue
        if not hasattr(node, "op") or node in seen:
            continue
        seen.add(node)
        if node.op in ("placeholder", "get_attr"):
            yield INPUT if node.op == "placeholder" else OWN
        elif hasattr(node.target, "_schema"):
            waiting += [given for given, (is_alias, _) in _arguments(node) if is_alias]
        else:  # one of several results
            waiting += node.all_input_nodes


def _arguments(node: Any) -> Iterator[tuple[Any, tuple[bool, bool]]]:
    """Yields the arguments of an operator, each with its alias flags from `_alias_of`."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return
    for place, (argument, alias) in enumerate(
        zip(schema.arguments, _alias_of(schema), strict=True)
    ):
        is_placed = place < len(node.args)
        yield node.args[place] if is_placed else node.kwargs.get(argument.name), alias
