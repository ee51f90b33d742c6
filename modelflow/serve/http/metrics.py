"""``/metrics``: counters as Prometheus reads them, under our names and those of other servers.

Nothing is counted for it: what models and flows count anyway is put into words when it is asked
for. Counters of other servers have no type: Prometheus would add ``_total`` to their names.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from modelflow.errors import MissingDependencyError
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.profile.metrics import node_families
from modelflow.serve.access.error_reply import settle
from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup
from modelflow.serve.metrics.model_counts import BOUNDS
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.repository.models import Models

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
        UntypedMetricFamily,
    )
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingDependencyError("prometheus-client", "serve", "metrics") from error

_MICROSECONDS = 1e6
_LABELS = ("model", "version")


class MetricsPage:
    """Answers ``/metrics``, and ``/monitoring/prometheus/metrics``, as TensorFlow Serving does."""

    def __init__(self, replica_group: ReplicaGroup, models: Models) -> None:
        """Takes who has counted, and how each version fares."""
        self._group = replica_group
        self._models = models
        paths = ("/metrics", "/monitoring/prometheus/metrics")  # TensorFlow Serving's is the second
        self.endpoints: tuple[Endpoint, ...] = tuple(
            endpoint(path, GET=self._ask).of(Group.METRICS) for path in paths
        )

    def _ask(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        self._group.counts(partial(settle, http_request, _make_page, self._models))


class _OneCollection(Collector):  # type: ignore[misc]  # it is not always there
    """The metrics of one moment."""

    def __init__(self, counts: GroupCounts, models: Models) -> None:
        self._counts = counts
        self._states = _states(models)

    def collect(self) -> Iterator[Metric]:
        models = self._counts.snapshots
        return itertools.chain(
            _own(models),
            self._states,
            _triton(models),
            _tensorflow(models),
            _processes(self._counts),
        )


def _make_page(models: Models, counts: GroupCounts) -> Reply:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OneCollection(counts, models))
    text = generate_latest(registry)
    return Reply(200, text, {"content-type": CONTENT_TYPE_LATEST})


def _processes(counts: GroupCounts) -> Iterator[Metric]:
    """What there is to know of several processes; of one that is alone nothing."""
    if counts.up is not None:
        text = "Replicas whose figures are in these."
        yield GaugeMetricFamily("modelflow_replicas_up", text, counts.up)
        text = "Replicas that there are meant to be."
        yield GaugeMetricFamily("modelflow_replicas", text, counts.count)
    if counts.deaths:
        text = "Processes that have ended and were replaced."
        deaths = CounterMetricFamily("modelflow_process_deaths", text, labels=("process",))
        for name, count in counts.deaths.items():
            deaths.add_metric([name], count)
        yield deaths


def _states(models: Models) -> list[Metric]:
    """How each version fares, as the process that answers knows it; why, the index says."""
    text = "Versions, by their state: START LOADING AVAILABLE UNLOADING END."
    family = GaugeMetricFamily("modelflow_versions", text, labels=(*_LABELS, "state"))
    for name, status, _ in models.index():
        if status is not None:
            family.add_metric([name, str(status.version), str(status.state)], 1)
    return [family]


def _own(models: Sequence[ModelSnapshot]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "modelflow_requests", "Requests, by how they ended.", labels=(*_LABELS, "code")
    )
    refused = CounterMetricFamily(
        "modelflow_refused", "Requests that were not taken.", labels=(*_LABELS, "reason")
    )
    under_way = GaugeMetricFamily(
        "modelflow_requests_under_way", "Requests that have no answer yet.", labels=_LABELS
    )
    latency = HistogramMetricFamily(
        "modelflow_request_seconds", "From a request's arrival to its answer.", labels=_LABELS
    )
    for model in models:
        labels = [model.name, str(model.version)]
        for code, count in model.outcomes.items():
            requests.add_metric([*labels, code], count)
        for reason, count in model.refused.items():
            refused.add_metric([*labels, reason], count)
        under_way.add_metric(labels, model.under_way)
        latency.add_metric(labels, _buckets(model.latencies), model.seconds)
    yield from (requests, refused, under_way, latency)
    nodes = [([m.name, str(m.version)], node) for m in models for node in m.nodes]
    yield from node_families(_LABELS, nodes)


def _triton(models: Iterable[ModelSnapshot]) -> Iterator[Metric]:
    """The names that dashboards for Triton read."""
    success = UntypedMetricFamily(
        "nv_inference_request_success", "Requests that were answered.", labels=_LABELS
    )
    failure = UntypedMetricFamily(
        "nv_inference_request_failure", "Requests that failed.", labels=(*_LABELS, "reason")
    )
    count = UntypedMetricFamily("nv_inference_count", "Items.", labels=_LABELS)
    pending = GaugeMetricFamily(
        "nv_inference_pending_request_count", "Requests without an answer.", labels=_LABELS
    )
    calls = UntypedMetricFamily("nv_inference_exec_count", "Calls of the model.", labels=_LABELS)
    durations = {
        name: UntypedMetricFamily(
            f"nv_inference_{name}_duration_us",
            f"Time of requests, {text}, added up.",
            labels=_LABELS,
        )
        for name, text in (
            ("request", "from arrival to answer"),
            ("queue", "waiting"),
            ("compute_input", "gathering inputs (in compute_infer)"),
            ("compute_infer", "in units"),
            ("compute_output", "making the answer"),
        )
    }
    for model in models:
        labels = [model.name, str(model.version)]
        success.add_metric(labels, model.answered)
        for reason in ("REJECTED", "CANCELED", "OTHER"):
            failure.add_metric([*labels, reason], _failures(model, reason))
        count.add_metric(labels, model.rows)
        calls.add_metric(labels, model.executions)
        pending.add_metric(labels, model.under_way)
        waiting, compute = model.split_seconds()
        times = (model.seconds, waiting, 0.0, compute, model.answer_seconds)
        for family, seconds in zip(durations.values(), times, strict=True):
            family.add_metric(labels, seconds * _MICROSECONDS)
    yield from (success, failure, count, calls, pending, *durations.values())


def _failures(model: ModelSnapshot, reason: str) -> int:
    """How many failed for what Triton calls so."""
    cancelled = model.outcomes.get("CANCELLED", 0)
    if reason == "REJECTED":
        return sum(model.refused.values())
    if reason == "CANCELED":
        return cancelled
    return sum(model.outcomes.values()) - model.outcomes.get("OK", 0) - cancelled


def _tensorflow(models: Iterable[ModelSnapshot]) -> Iterator[Metric]:
    """The names that dashboards for TensorFlow Serving read."""
    requests = UntypedMetricFamily(
        ":tensorflow:serving:request_count", "Requests.", labels=("model_name", "status")
    )
    latency = HistogramMetricFamily(
        ":tensorflow:serving:request_latency",
        "From a request's arrival to its answer, in microseconds.",
        labels=("model_name", "API", "entrypoint"),
    )
    for model in models:
        for code, number in model.outcomes.items():
            requests.add_metric([model.name, code], number)
        buckets = _buckets(model.latencies, _MICROSECONDS)
        labels = [model.name, "predict", "REST"]
        latency.add_metric(labels, buckets, model.seconds * _MICROSECONDS)
    yield from (requests, latency)


def _buckets(latencies: Iterable[int], scale: float = 1.0) -> list[tuple[str, float]]:
    """Upper bound -> how many took at most so long."""
    bounds = [*(f"{bound * scale:g}" for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, itertools.accumulate(latencies), strict=True))
