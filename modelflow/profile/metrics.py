"""A flow's figures as Prometheus reads them; put into words when they are asked for.

Nothing is counted for it, and no object of the library's is touched while the flow works.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from modelflow.errors import MissingDependencyError
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

# What families are labelled with, beside what their flow is.
_NODE = ("node", "unit")
# Of nodes that run elsewhere: machine and process.
_REPLICA = "replica"
# 0.1 ms to 52 s, each twice as long as the one before, in seconds.
_BOUNDS = tuple(1e-4 * 2**place for place in range(20))


def _get(of: str, name: str) -> Callable[[NodeStats], float]:
    return lambda node: node.figures.get(of, {}).get(name, 0)


_COUNTERS: Sequence[tuple[str, str, Callable[[NodeStats], float]]] = (
    ("buffers", "Rows given to the unit.", lambda node: node.buffers),
    ("batches", "Calls of the unit.", lambda node: node.batches),
    ("expired", "Rows whose deadline had passed.", lambda node: node.expired),
    ("dropped", "Rows of cancelled requests that never came here.", lambda node: node.dropped),
    ("padding_rows", "Rows that batches were filled up with.", _get("batching", "padding")),
    ("lost_replicas", "Replicas of its placement that were lost.", _get("replicas", "lost")),
    ("moved_bytes", "Bytes copied between devices.", lambda node: node.moved_bytes),
    ("busy_seconds", "Time in the unit, over all workers.", lambda node: node.busy),
    ("starved_seconds", "Time without anything to do.", lambda node: node.starved),
    ("blocked_seconds", "Time without room behind the node.", lambda node: node.blocked),
    ("order_seconds", "Time in which others had to go first.", lambda node: node.order),
    ("worker_seconds", "Time that its workers have been there.", lambda node: node.seconds),
)
_GAUGES: Sequence[tuple[str, str, Callable[[NodeStats], float]]] = (
    ("queue_rows", "Rows that wait now.", lambda node: node.queue),
    ("queue_capacity_rows", "Rows at which producers wait.", lambda node: node.capacity),
    ("workers", "Threads that work for it.", lambda node: node.threads),
)


class FlowCollector(Collector):  # type: ignore[misc]  # it is not always there
    """Gives the metrics of flows at the moment in which they are collected."""

    def __init__(self, stats: Callable[[], Iterable[FlowStats]]) -> None:
        """Takes what gives the figures; from any thread."""
        self._stats = stats
        self._told: dict[tuple[str, ...], float] = {}

    def collect(self) -> Iterator[Metric]:
        """Gives every family; called by the library."""
        flows = list(self._stats())
        yield from _flows(flows)
        nodes = [([flow.name], node) for flow in flows for node in flow.values()]
        told: dict[tuple[str, ...], float] = {}  # of what there is now: replicas come and go
        for family in node_families(("flow",), nodes):
            if family.type == "counter":
                family.samples = [self._raise_counter(sample, told) for sample in family.samples]
            yield family
        self._told = told

    def _raise_counter(self, sample: Sample, told: dict[tuple[str, ...], float]) -> Sample:
        """Returns a counter's sample that is no lower than the one before, and notes it.

        A call that ends while the figures of its worker are read is missing from the seconds.
        """
        key = (sample.name, *sample.labels.values())
        told[key] = value = max(sample.value, self._told.get(key, 0.0))
        return sample._replace(value=value)


def node_families(
    labels: Sequence[str], nodes: Iterable[tuple[Sequence[str], NodeStats]]
) -> Iterator[Metric]:
    """Gives the families of nodes.

    Where there are far ones, so are the nodes behind these, with the label ``replica``; of others
    that is empty, which is the same as none.

    Args:
        labels: The names of the labels that say whose a node is.
        nodes: Their values, and its figures.
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
    """Of a node whose work is done elsewhere."""
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
    """Rows a call: powers of two up to the batch size."""
    text = "Rows of each call."
    found = HistogramMetricFamily("modelflow_node_batch_rows", text, labels=names)
    for labels, node in nodes:
        sizes = {size: count for size, count in node.batch_sizes.items() if size}
        bounds = [2**place for place in range(max([1, *sizes]).bit_length() + 1)]
        buckets = [
            (str(bound), sum(count for size, count in sizes.items() if size <= bound))
            for bound in bounds
        ]
        found.add_metric(labels, [*buckets, ("+Inf", sum(sizes.values()))], node.buffers)
    return found


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Upper bound -> how many took at most so long."""
    counts = histogram.at_most(_BOUNDS)
    named = zip((f"{bound:g}" for bound in _BOUNDS), counts, strict=True)
    return [*named, ("+Inf", histogram.count)]


def metrics_page(collector: FlowCollector) -> Callable[[str], tuple[bytes, str]]:
    """Returns a function that writes what a collector gives, for the ``Accept`` of a client.

    It returns the text, or OpenMetrics where the client asks for it, with its media type.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)

    def write(accept: str) -> tuple[bytes, str]:
        encode, media_type = choose_encoder(accept)
        return encode(registry), media_type

    return write
