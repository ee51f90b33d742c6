"""Advice for better settings with the same result; advice is no mistake and changes nothing."""

from modelflow.config.node_settings import DEFAULT_QUEUE_SIZE
from modelflow.device.interpreter import has_lock
from modelflow.graph.graph import Graph
from modelflow.graph.node import Node
from modelflow.unit.advice import Place


def advice(graph: Graph) -> list[str]:
    """Returns the advice for a graph's nodes and of their units, each with its file and line."""
    return [
        f"{node.location}: node {node.name!r}: {sentence}"
        for node in graph.nodes.values()
        for sentence in (_ask_unit(graph, node), _compare_queue(node), _compare_workers(node))
        if sentence is not None
    ]


def _ask_unit(graph: Graph, node: Node) -> str | None:
    if node.spec is None or node.spec.advise is None:
        return None
    readers = dict.fromkeys(edge.target.node for edge in graph.edges_from(node.name))
    return node.spec.advise(_place(node), [_place(graph.nodes[name]) for name in readers])


def _compare_queue(node: Node) -> str | None:
    """Returns advice for a queue that is smaller than the batch that the graph asks for.

    Measured in a chain whose calls take 2 ms: 2.1 times slower with half a batch in each queue.
    """
    settings = node.settings
    size, queue = settings.batch_size or 0, settings.queue_size or DEFAULT_QUEUE_SIZE
    bounds = [(settings.queue_sizes.get(port, queue), port) for port in node.inputs]
    bound, port = min(bounds, default=(size, ""))
    if bound >= size or settings.split_size:
        return None
    name = f"queue_size_{port}" if port in settings.queue_sizes else "queue_size"
    return (
        f"a queue of {bound} buffers ({name}) seldom fills a batch of {size} (batch_size); "
        f"write {name}={2 * size}"
    )


def _compare_workers(node: Node) -> str | None:
    """Returns advice for processes where threads compute in Python at the same time.

    `benchmarks/interpreters.py` compares both.
    """
    if node.settings.workers != "process" or has_lock():
        return None
    return (
        "without interpreter lock, threads compute at the same time without copies; leave "
        "workers=process out, unless the unit may crash or a package needs the lock"
    )


def _place(node: Node) -> Place:
    return Place(
        node=node.name,
        unit="" if node.spec is None else node.spec.name,
        devices=frozenset(device.kind for device in node.devices),
        written=frozenset(node.options),
        config=node.config,
    )
