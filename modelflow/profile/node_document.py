"""The figures of a node as JSON has them, and back."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from modelflow.runtime.stats import Histogram, NodeStats

_SIZED = ("batch_sizes", "batch_seconds")  # whose keys are numbers, which JSON has as texts


def node_document(node: NodeStats) -> dict[str, Any]:
    """Returns figures as what JSON can hold; `read_node` is the inverse."""
    found = dict(vars(node))
    for name in _SIZED:
        found[name] = {str(size): value for size, value in found[name].items()}
    found["figures"] = {
        name: {str(key): value for key, value in own.items()} for name, own in node.figures.items()
    }
    found["replicas"] = {
        replica: {name: node_document(one) for name, one in nodes.items()}
        for replica, nodes in node.replicas.items()
    }
    service, wait = histogram_document(node.service), histogram_document(node.wait)
    return {**found, "service": service, "wait": wait}


def read_node(document: Mapping[str, Any]) -> NodeStats:
    """Takes what `node_document` has given; what a later version has added is passed over.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is damaged.
    """
    known = {field.name for field in fields(NodeStats)}
    found = {name: value for name, value in document.items() if name in known}
    for name in _SIZED:
        found[name] = {int(size): value for size, value in found[name].items()}
    for name in ("service", "wait"):
        found[name] = read_histogram(found[name])
    found["replicas"] = {
        replica: {name: read_node(one) for name, one in nodes.items()}
        for replica, nodes in found.get("replicas", {}).items()
    }
    return NodeStats(**found)


def histogram_document(histogram: Histogram) -> dict[str, Any]:
    """Returns a histogram as what JSON can hold."""
    counts = {str(bucket): count for bucket, count in histogram.counts.items()}
    return {"total": histogram.total, "counts": counts}


def read_histogram(document: Mapping[str, Any]) -> Histogram:
    """Takes what `histogram_document` has given."""
    counts = {int(bucket): int(count) for bucket, count in document["counts"].items()}
    return Histogram(counts, float(document["total"]))
