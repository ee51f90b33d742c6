"""``/metrics``: counters for Prometheus, under the names of modelflow and of other servers.

The page counts nothing itself. Each request formats the counts that models and flows keep anyway.
The Prometheus client would add ``_total`` to the names of counters. Counters with the names of
other servers are therefore written without a type, which `_make_page` replaces. In OpenMetrics
they stay without a type, because a counter's name has to end with ``_total`` there.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from modelflow.errors import MissingDependencyError
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.profile.metrics import encoder_of, node_families
from modelflow.profile.process_metrics import build_family, process_families
from modelflow.serve.access.error_reply import settle
from modelflow.serve.access.keys import Group
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.access.shared_counts import Counted
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup
from modelflow.serve.metrics.model_counts import BOUNDS, Exemplar
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
    from prometheus_client.registry import Collector
    from prometheus_client.samples import Exemplar as Sampled
except ImportError as error:
    raise MissingDependencyError("prometheus-client", "serve", "metrics") from error

_MICROSECONDS = 1e6
_LABELS = ("model", "version")
_FOREIGN = re.compile(
    rb"^(# TYPE (?:nv_inference_|nv_cache_|:tensorflow:serving:)\w+) untyped$", re.MULTILINE
)


class MetricsPage:
    """The endpoints ``/metrics`` and ``/monitoring/prometheus/metrics`` (TensorFlow Serving's)."""

    def __init__(self, replica_group: ReplicaGroup, models: Models, middleware: Middleware) -> None:
        """Stores the group that collects counts, the models, and the middleware with its counts."""
        self._group = replica_group
        self._middleware = middleware
        self._models = models
        paths = ("/metrics", "/monitoring/prometheus/metrics")  # TensorFlow Serving's is the second
        self.endpoints: tuple[Endpoint, ...] = tuple(
            endpoint(path, GET=self._ask).of(Group.METRICS) for path in paths
        )

    def _ask(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        accept = http_request.head.named.get(b"accept", b"").decode("latin-1")
        shared = _list_shared(self._middleware)
        self._group.counts(partial(settle, http_request, _make_page, self._models, shared, accept))


class _OneCollection(Collector):  # type: ignore[misc]  # an optional package
    """A collector of the metrics from one snapshot."""

    def __init__(self, counts: GroupCounts, models: Models, shared: Iterable[Metric]) -> None:
        self._counts = counts
        self._shared = shared
        self._states = _states(models)

    def collect(self) -> Iterator[Metric]:
        models = self._counts.snapshots
        return itertools.chain(
            _own(models),
            self._states,
            self._shared,
            _triton(models),
            _tensorflow(models),
            _processes(self._counts),
        )


def _make_page(models: Models, shared: Iterable[Metric], accept: str, counts: GroupCounts) -> Reply:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OneCollection(counts, models, shared))
    encode, media_type = encoder_of(accept)
    text = _FOREIGN.sub(rb"\1 counter", encode(registry))
    return Reply(200, text, {"content-type": media_type})


def _processes(counts: GroupCounts) -> Iterator[Metric]:
    """Yields the metrics of the process, or of several processes.

    With several processes another one may answer each time. Its own figures are then left out,
    because its counters would seem to jump.
    """
    if counts.up is None:
        yield from process_families()
    else:
        yield build_family()
        text = "Replicas that these metrics include."
        yield GaugeMetricFamily("modelflow_replicas_up", text, counts.up)
        text = "Replicas that should run."
        yield GaugeMetricFamily("modelflow_replicas", text, counts.count)
    if counts.deaths:
        text = "Processes that have ended and were replaced."
        deaths = CounterMetricFamily("modelflow_process_deaths", text, labels=("process",))
        for name, count in counts.deaths.items():
            deaths.add_metric([name], count)
        yield deaths


def _list_shared(middleware: Middleware) -> list[Metric]:
    """Returns the counters that the processes share, if their features are on."""
    found: list[Metric] = []
    if middleware.keys is not None:
        text = "Requests beyond a limit of their API key, by the kind of the limit."
        refused = CounterMetricFamily("modelflow_quota_refused", text, labels=("reason",))
        refused.add_metric(["requests"], middleware.counts.read(Counted.REFUSED_REQUESTS))
        refused.add_metric(["rows"], middleware.counts.read(Counted.REFUSED_ROWS))
        found.append(refused)
    if middleware.payloads is not None:
        text = "Events of the payload log, written or lost."
        events = CounterMetricFamily("modelflow_payload_events", text, labels=("result",))
        events.add_metric(["written"], middleware.counts.read(Counted.LOGGED))
        events.add_metric(["lost"], middleware.counts.read(Counted.LOST))
        found.append(events)
    return found


def _states(models: Models) -> list[Metric]:
    """Returns the state of each version in this process. The repository index has the reasons."""
    text = "Versions by state: START LOADING AVAILABLE UNLOADING END."
    family = GaugeMetricFamily("modelflow_versions", text, labels=(*_LABELS, "state"))
    for name, status, _ in models.index():
        if status is not None:
            family.add_metric([name, str(status.version), str(status.state)], 1)
    return [family]


def _family(
    kind: Callable[..., Metric],
    name: str,
    text: str,
    models: Iterable[ModelSnapshot],
    values: Callable[[ModelSnapshot], Mapping[str, float] | float],
    label: str | None = None,
) -> Metric:
    """Returns a family with a value for each model, or for each model and label value."""
    family: Any = kind(name, text, labels=_LABELS if label is None else (*_LABELS, label))
    for model in models:
        labels, found = [model.name, str(model.version)], values(model)
        for more, value in found.items() if isinstance(found, Mapping) else [(None, found)]:
            family.add_metric(labels if more is None else [*labels, more], value)
    return family


def _own(models: Sequence[ModelSnapshot]) -> Iterator[Metric]:
    counter, gauge = CounterMetricFamily, GaugeMetricFamily
    name, text = "modelflow_requests", "Finished requests, by result code."
    yield _family(counter, name, text, models, lambda one: one.outcomes, "code")
    name, text = "modelflow_refused", "Requests that were refused."
    yield _family(counter, name, text, models, lambda one: one.refused, "reason")
    name, text = "modelflow_shadow_requests", "Copies for a shadow version, by result code."
    yield _family(counter, name, text, models, lambda one: one.shadows, "code")
    name, text = "modelflow_cache_lookups", "Lookups in the response cache."
    yield _family(counter, name, text, models, _count_lookups, "result")
    name, text = "modelflow_requests_under_way", "Requests without a reply yet."
    yield _family(gauge, name, text, models, lambda one: one.under_way)
    name, text = "modelflow_sequences", "Open sequences of requests."
    yield _family(gauge, name, text, models, lambda one: one.sequences)
    latency = HistogramMetricFamily(
        "modelflow_request_seconds", "Time from a request's arrival to its reply.", labels=_LABELS
    )
    for model in models:
        labels = [model.name, str(model.version)]
        pairs = zip(_buckets(model.latencies), model.exemplars, strict=True)
        buckets = [(*bucket, _write_exemplar(exemplar)) for bucket, exemplar in pairs]
        latency.add_metric(labels, buckets, model.seconds)
    yield latency
    nodes = [([m.name, str(m.version)], node) for m in models for node in m.nodes]
    yield from node_families(_LABELS, nodes)


def _count_lookups(model: ModelSnapshot) -> Mapping[str, float]:
    return {"hit": model.cache_hits, "miss": model.cache_misses}


def _write_exemplar(exemplar: Exemplar | None) -> Sampled | None:
    if exemplar is None:
        return None
    return Sampled({"trace_id": exemplar.trace_id}, exemplar.seconds, exemplar.time)


def _triton(models: Sequence[ModelSnapshot]) -> Iterator[Metric]:
    """Yields the metrics under Triton's names, for existing dashboards."""
    untyped = UntypedMetricFamily
    name, text = "nv_inference_request_success", "Requests that were answered."
    yield _family(untyped, name, text, models, lambda one: one.answered)
    name, text = "nv_inference_request_failure", "Requests that failed."
    yield _family(untyped, name, text, models, _failures, "reason")
    yield _family(untyped, "nv_inference_count", "Items.", models, lambda one: one.rows)
    name, text = "nv_inference_exec_count", "Calls of the model."
    yield _family(untyped, name, text, models, lambda one: one.executions)
    name, text = "nv_cache_num_hits_per_model", "Requests that the cache answered."
    yield _family(untyped, name, text, models, lambda one: one.cache_hits)
    name, text = "nv_cache_num_misses_per_model", "Requests that the cache could not answer."
    yield _family(untyped, name, text, models, lambda one: one.cache_misses)
    name, text = "nv_inference_pending_request_count", "Requests without a reply."
    yield _family(GaugeMetricFamily, name, text, models, lambda one: one.under_way)
    for part, meaning, seconds in _DURATIONS:
        name, text = f"nv_inference_{part}_duration_us", f"Total time of requests, {meaning}."
        microseconds = partial(_to_microseconds, seconds)
        yield _family(untyped, name, text, models, microseconds)


_DURATIONS: Sequence[tuple[str, str, Callable[[ModelSnapshot], float]]] = (
    ("request", "from arrival to reply", lambda one: one.seconds),
    ("queue", "waiting", lambda one: one.split_seconds()[0]),
    ("compute_input", "gathering inputs (in compute_infer)", lambda _: 0.0),
    ("compute_infer", "in units", lambda one: one.split_seconds()[1]),
    ("compute_output", "making the reply", lambda one: one.answer_seconds),
)


def _to_microseconds(seconds: Callable[[ModelSnapshot], float], model: ModelSnapshot) -> float:
    return seconds(model) * _MICROSECONDS


def _failures(model: ModelSnapshot) -> Mapping[str, float]:
    """Returns the number of failed requests by Triton's reasons."""
    cancelled = model.outcomes.get("CANCELLED", 0)
    others = sum(model.outcomes.values()) - model.answered - cancelled
    return {"REJECTED": sum(model.refused.values()), "CANCELED": cancelled, "OTHER": others}


def _tensorflow(models: Iterable[ModelSnapshot]) -> Iterator[Metric]:
    """Yields the metrics under TensorFlow Serving's names, for existing dashboards."""
    requests = UntypedMetricFamily(
        ":tensorflow:serving:request_count", "Requests.", labels=("model_name", "status")
    )
    latency = HistogramMetricFamily(
        ":tensorflow:serving:request_latency",
        "Time from a request's arrival to its reply, in microseconds.",
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
    """Returns the upper bounds of the histogram, with the number of requests up to each bound."""
    bounds = [*(f"{bound * scale:g}" for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, itertools.accumulate(latencies), strict=True))
