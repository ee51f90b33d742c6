"""Fuses neighbours of a drawn graph into one stage, by name wherever possible, or unasked."""

from dataclasses import replace

from modelflow.errors import PlanError
from modelflow.plan import make_plan
from modelflow.unit.kind import Normal
from tests.runtime.graphs import graph_of

# The attributes that must be equal along a chain.
_SHARED = ("threads", "batch_size")
_OF_THE_GRAPH = {"batch_size": 3, "queue_size": 4, "inherited": frozenset({"queue_size"})}


def fuse_wherever(nodes, edges):
    """Returns the nodes, as `graph_of` takes them, with as many of them fused as can be."""
    for edge in edges:
        first, second = (end.strip().partition(":")[0] for end in edge.split("->"))
        if isinstance(nodes[first], tuple) and isinstance(nodes[second], tuple):
            nodes = _tried(nodes, edges, first, second)
    return nodes


def without_own(node):
    """Returns the node with the graph's default sizes, with which the plan may fuse the node.

    A node with a ``split_size`` keeps its drawn settings, and so a stage of its own.
    """
    if not isinstance(node, tuple):
        return node
    spec, settings = node
    is_fusible = isinstance(spec.kind, Normal) and spec.inputs and spec.outputs
    if not is_fusible or "split_size" in settings:
        return node
    visible = {key: settings[key] for key in settings if key == "is_exception_visible"}
    return replace(spec, is_compute_bound=True), {**_OF_THE_GRAPH, **visible}


def _tried(nodes, edges, first, second):
    (one, before), (other, after) = nodes[first], nodes[second]
    if "fuse" in after:
        return nodes  # the node is the end of a chain, or has been tried as the beginning
    name = before.get("fuse", first)
    visible = {key: after[key] for key in after if key == "is_exception_visible"}
    # A sink must record each row once and in order, which its own settings ensure.
    leading = before if other.outputs else after
    shared = {key: leading[key] for key in _SHARED if key in leading}
    fused = {
        **nodes,
        first: (one, {**before, **shared, "fuse": name}),
        second: (other, {**shared, **visible, "fuse": name}),
    }
    try:
        make_plan(graph_of(fused, edges))
    except PlanError:
        return nodes
    return fused
