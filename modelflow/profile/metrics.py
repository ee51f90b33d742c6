"""Prometheus metrics of a flow, computed when they are collected.

The metrics cost nothing while the flow runs: they need no counters and no objects of the library.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from modelflow.errors import MissingDependencyError
from modelflow.profile.process_metrics import process_families
from modelflow.runtime.stats import FlowStats, Histogram, NodeStats

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
    from prometheus_client.samples import Sample
except ImportError as error:
    raise MissingDependencyError("prometheus-client", "serve", "metrics") from error

_Owned = Sequence[tuple[Sequence[str], NodeStats]]

# The labels of node families, after the labels of their flow.
_NODE = ("node", "unit")
# The label of nodes that run elsewhere: machine and process.
_REPLICA = "replica"
# Bucket bounds in seconds, from 0.1 ms to 52 s. Each is twice the bound before.
_BOUNDS = tuple(1e-4 * 2**place for place in range(20))


def _get(of: str, name: str) -> Callable[[NodeStats], float]:
    return lambda node: node.figures.get(of, {}).get(name, 0)


_COUNTERS: Sequence[tuple[str, str, Callable[[NodeStats], float]]] = (
    ("buffers", "Rows that the unit got.", lambda node: node.buffers),
    ("batches", "Takes from the queue, each a call of the unit.", lambda node: node.batches),
    ("expired", "Rows whose deadline had passed.", lambda node: node.expired),
    ("dropped", "Rows of cancelled requests that never came here.", lambda node: node.dropped),
    ("padding_rows", "Rows that batches were filled up with.", _get("batching", "padding")),
    ("lost_replicas", "Replicas of its placement that were lost.", _get("replicas", "lost")),
    ("moved_bytes", "Bytes copied between devices.", lambda node: node.moved_bytes),
    ("busy_seconds", "Time in the unit, over all workers.", lambda node: node.busy),
    ("starved_seconds", "Time without work, over all workers.", lambda node: node.starved),
    ("blocked_seconds", "Time without room in the next queue.", lambda node: node.blocked),
    ("order_seconds", "Time in which earlier batches had to go first.", lambda node: node.order),
    ("worker_seconds", "Lifetime of its workers, over all workers.", lambda node: node.seconds),
)
_GAUGES: Sequence[tuple[str, str, Callable[[NodeStats], float]]] = (
    ("queue_rows", "Rows in the queue now.", lambda node: node.queue),
    ("queue_capacity_rows", "Rows at which producers wait.", lambda node: node.capacity),
    ("workers", "Threads of the node.", lambda node: node.threads),
)


class FlowCollector(Collector):  # type: ignore[misc]  # the library may be missing
    """Computes the metrics of flows at each collection."""

    def __init__(self, stats: Callable[[], Iterable[FlowStats]]) -> None:
        """Stores the function that returns the statistics. Any thread may call it."""
        self._stats = stats
        self._told: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()  # of the above, because several threads may collect

    def collect(self) -> Iterator[Metric]:
        """Yields every family; called by the library."""
        flows = list(self._stats())
        yield from process_families()
        yield from _flows(flows)
        nodes = [([flow.name], node) for flow in flows for node in flow.values()]
        families = list(node_families(("flow",), nodes))
        told: dict[tuple[str, ...], float] = {}  # only present nodes: replicas may disappear
        with self._lock:
            for family in families:
                if family.type == "counter":
                    raised = [self._raise_counter(sample, told) for sample in family.samples]
                    family.samples = raised
            self._told = told
        yield from families

    def _raise_counter(self, sample: Sample, told: dict[tuple[str, ...], float]) -> Sample:
        """Returns and stores a counter's sample, never lower than at the last collection.

        A value could fall: a call that ends while its worker's statistics are read is missing in
        the seconds.
        """
        key = (sample.name, *sample.labels.values())
        told[key] = value = max(sample.value, self._told.get(key, 0.0))
        return sample._replace(value=value)


def node_families(
    labels: Sequence[str], nodes: Iterable[tuple[Sequence[str], NodeStats]]
) -> Iterator[Metric]:
    """Yields the metric families of nodes.

    If a node runs elsewhere, the nodes on its replicas are included, with the label ``replica``.
    Other nodes have an empty label, which is equal to no label.

    Args:
        labels: The names of the labels that identify the flow of a node.
        nodes: The values of these labels, and the node's statistics.
    """
    names = (*labels, *_NODE)
    owned = [([*values, node.node, node.unit], node) for values, node in nodes]
    far = [
        ([*values[: len(labels)], inner.node, inner.unit, replica], inner)
        for values, node in owned
        for replica, inside in node.replicas.items()
        for inner in inside.values()
    ]
    if far:
        names = (*names, _REPLICA)
        owned = [*(([*values, ""], node) for values, node in owned), *far]
    for family, known in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
        for name, text, value in known:
            found = family(f"modelflow_node_{name}", text, labels=names)
            for values, node in owned:
                found.add_metric(values, value(node))
            yield found
    yield _by(names, owned, ("errors", "Rows that failed.", "kind"), lambda node: node.failures)
    closed = ("batches_closed", "Why batches closed.", "reason")
    yield _by(names, owned, closed, lambda node: node.closed)
    replicas = ("replicas", "Replicas of its placement now.", "state")
    yield _by(names, owned, replicas, _replicas, GaugeMetricFamily)
    took, waited = "How long calls took.", "How long the oldest row of each batch had waited."
    yield _times(names, owned, ("service_seconds", took), lambda node: node.service)
    yield _times(names, owned, ("wait_seconds", waited), lambda node: node.wait)
    yield _sizes(names, owned)


def _flows(flows: Sequence[FlowStats]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "modelflow_requests", "Requests, by how they ended.", labels=("flow", "outcome")
    )
    latency = HistogramMetricFamily(
        "modelflow_request_seconds", "From a request's beginning to its end.", labels=("flow",)
    )
    under_way = GaugeMetricFamily(
        "modelflow_in_flight_requests", "Requests that are not over.", labels=("flow",)
    )
    pool = GaugeMetricFamily(
        "modelflow_pool_bytes", "Host memory kept for reuse.", labels=("flow", "state")
    )
    for flow in flows:
        for outcome, count in flow.requests.items():
            requests.add_metric([flow.name, outcome], count)
        latency.add_metric([flow.name], _buckets(flow.latency), flow.latency.total)
        under_way.add_metric([flow.name], flow.in_flight)
        for state, size in flow.pool.items():
            pool.add_metric([flow.name, state], size)
    yield from (requests, latency, under_way, pool)


def _by(
    names: Sequence[str],
    nodes: _Owned,
    family: tuple[str, str, str],
    counts: Callable[[NodeStats], Mapping[str, int]],
    kind: Callable[..., Metric] = CounterMetricFamily,
) -> Metric:
    name, text, label = family
    found = kind(f"modelflow_node_{name}", text, labels=(*names, label))
    for labels, node in nodes:
        for key, count in counts(node).items():
            found.add_metric([*labels, key], count)
    return found


def _replicas(node: NodeStats) -> dict[str, int]:
    """Returns the replica counts of a node that runs elsewhere."""
    found = node.figures.get("replicas", {})
    return {state: found[state] for state in ("ready", "starting") if state in found}


def _times(
    names: Sequence[str],
    nodes: _Owned,
    family: tuple[str, str],
    histogram: Callable[[NodeStats], Histogram],
) -> Metric:
    name, text = family
    found = HistogramMetricFamily(f"modelflow_node_{name}", text, labels=names)
    for labels, node in nodes:
        times = histogram(node)
        found.add_metric(labels, _buckets(times), times.total)
    return found


def _sizes(names: Sequence[str], nodes: _Owned) -> Metric:
    """Returns a histogram of the rows of each take, in powers of two up to the batch size."""
    text = "Rows of each take from the queue."
    found = HistogramMetricFamily("modelflow_node_batch_rows", text, labels=names)
    for labels, node in nodes:
        sizes = {size: count for size, count in node.batch_sizes.items() if size}
        bounds = [2**place for place in range(max([1, *sizes]).bit_length() + 1)]
        buckets = [
            (str(bound), sum(count for size, count in sizes.items() if size <= bound))
            for bound in bounds
        ]
        found.add_metric(labels, [*buckets, ("+Inf", sum(sizes.values()))], node.rows_taken)
    return found


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Returns upper bounds with the number of durations up to each bound."""
    counts = histogram.at_most(_BOUNDS)
    named = zip((f"{bound:g}" for bound in _BOUNDS), counts, strict=True)
    return [*named, ("+Inf", histogram.count)]


def encoder_of(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """Returns the encoder for an ``Accept`` header, and its media type.

    Args:
        accept: The header. A version that is no number counts as no wish.
    """
    try:
        encode, media_type = choose_encoder(accept.replace('"', ""))  # as in version="1.0.0"
    except (TypeError, ValueError):
        encode, media_type = choose_encoder("")
    return encode, media_type


def metrics_page(collector: FlowCollector) -> Callable[[str], tuple[bytes, str]]:
    """Returns a function that formats the metrics of a collector for an ``Accept`` header.

    The function returns the Prometheus text, or OpenMetrics if the client accepts it, and its media
    type.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)

    def write(accept: str) -> tuple[bytes, str]:
        encode, media_type = encoder_of(accept)
        return encode(registry), media_type

    return write
