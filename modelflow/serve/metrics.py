"""``/metrics``: counters as Prometheus reads them, under our names and those of other servers.

Nothing is counted for it: what models and flows count anyway is put into words when it is asked
for. Counters of other servers have no type: Prometheus would add ``_total`` to their names.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from modelflow.errors import MissingDependencyError
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.figures import BOUNDS
from modelflow.serve.keys import Group
from modelflow.serve.models import Models
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.served_model import ServedModel
from modelflow.serve.statistics import Statistics

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
    package = "prometheus-client"
    raise MissingDependencyError(package, "serve", "metrics") from error

__all__ = ["Metrics"]

_MICROSECONDS = 1e6
_LABELS = ("model", "version")


class Metrics(Collector):  # type: ignore[misc]  # it is not always there
    """Answers ``/metrics``."""

    def __init__(self, models: Models) -> None:
        """Takes what is served."""
        self._models = models
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        metrics = endpoint("/metrics", GET=self._answer).of(Group.METRICS)
        self.endpoints: tuple[Endpoint, ...] = (metrics,)

    def _answer(self, exchange: Exchange, _: Mapping[str, str]) -> None:
        text = generate_latest(self._registry)
        exchange.answer(Reply(200, text, {"content-type": CONTENT_TYPE_LATEST}))

    def collect(self) -> Iterator[Metric]:
        """Gives every metric."""
        models = list(self._models)
        return itertools.chain(_own(models), _triton(models), _tensorflow(models))


def _own(models: Iterable[ServedModel]) -> Iterator[Metric]:
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
    nodes = {
        name: CounterMetricFamily(f"modelflow_node_{name}", text, labels=(*_LABELS, "node"))
        for name, text in (
            ("batches", "Calls of the unit."),
            ("items", "Items given to the unit."),
            ("errors", "Items that failed in the unit."),
            ("busy_seconds", "Time spent in the unit, over all threads."),
        )
    }
    queue = GaugeMetricFamily(
        "modelflow_node_queue", "Items that wait for the unit.", labels=(*_LABELS, "node")
    )
    for model in models:
        labels, figures = [model.name, str(model.version)], model.figures
        for code, count in figures.outcomes.items():
            requests.add_metric([*labels, code], count)
        for reason, count in model.admission.refused.items():
            refused.add_metric([*labels, reason], count)
        under_way.add_metric(labels, len(model.calls))
        latency.add_metric(labels, _buckets(figures.latencies), figures.seconds)
        for node, stats in model.flow.stats().items():
            own = [*labels, node]
            nodes["batches"].add_metric(own, stats.batches)
            nodes["items"].add_metric(own, stats.buffers)
            nodes["errors"].add_metric(own, stats.errors)
            nodes["busy_seconds"].add_metric(own, stats.busy)
            queue.add_metric(own, stats.queue)
    yield from (requests, refused, under_way, latency, *nodes.values(), queue)


def _triton(models: Iterable[ServedModel]) -> Iterator[Metric]:
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
        labels, found = [model.name, str(model.version)], Statistics.of(model)
        success.add_metric(labels, found.answered)
        for reason in ("REJECTED", "CANCELED", "OTHER"):
            failure.add_metric([*labels, reason], _failures(model, reason))
        count.add_metric(labels, found.rows)
        calls.add_metric(labels, found.executions)
        pending.add_metric(labels, len(model.calls))
        times = (found.seconds, found.queue, 0.0, found.compute, found.answer)
        for family, seconds in zip(durations.values(), times, strict=True):
            family.add_metric(labels, seconds * _MICROSECONDS)
    yield from (success, failure, count, calls, pending, *durations.values())


def _failures(model: ServedModel, reason: str) -> int:
    """How many failed for what Triton calls so."""
    rejected = model.admission.refused.total()
    cancelled = model.figures.outcomes["CANCELLED"]
    if reason == "REJECTED":
        return rejected
    return cancelled if reason == "CANCELED" else model.figures.failures - cancelled


def _tensorflow(models: Iterable[ServedModel]) -> Iterator[Metric]:
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
        figures = model.figures
        for code, number in figures.outcomes.items():
            requests.add_metric([model.name, code], number)
        buckets = _buckets(figures.latencies, _MICROSECONDS)
        labels = [model.name, "predict", "REST"]
        latency.add_metric(labels, buckets, figures.seconds * _MICROSECONDS)
    yield from (requests, latency)


def _buckets(latencies: Iterable[int], scale: float = 1.0) -> list[tuple[str, float]]:
    """Upper bound -> how many took at most so long."""
    bounds = [*(f"{bound * scale:g}" for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, itertools.accumulate(latencies), strict=True))
