"""Metrics, as Prometheus's own parsers read them."""

import threading
from dataclasses import replace

from prometheus_client.openmetrics import parser as openmetrics

import modelflow
from modelflow.profile.metrics import FlowCollector, metrics_page
from tests.profile.flows import GRAPH, odd, used_flow
from tests.prometheus import samples_of


def scraped(stats, accept="text/plain"):
    return asked(metrics_page(FlowCollector(lambda: [stats()])), accept)


def asked(page, accept="text/plain"):
    return page(accept)[0].decode()


def value(found, name, **labels):
    return found[(name, *sorted({"flow": "known", **labels}.items()))]


def test_what_was_sent_is_what_is_read():
    flow = used_flow(ok=20, failed=7)
    found = samples_of(scraped(flow.stats))
    at = {"node": "odd", "unit": "odd"}
    assert value(found, "modelflow_requests_total", outcome="ok") == 20
    assert value(found, "modelflow_requests_total", outcome="failed") == 7
    assert value(found, "modelflow_request_seconds_count") == 27
    assert value(found, "modelflow_in_flight_requests") == 0
    assert value(found, "modelflow_node_buffers_total", **at) == 27
    assert value(found, "modelflow_node_errors_total", kind="ValueError", **at) == 7
    assert value(found, "modelflow_node_batch_rows_count", **at) == flow.stats()["odd"].batches
    assert value(found, "modelflow_node_batch_rows_sum", **at) == 27
    assert value(found, "modelflow_node_service_seconds_bucket", le="+Inf", **at) == 27
    stats = flow.stats()["odd"]
    closed = stats.closed
    for reason, count in closed.items():
        assert value(found, "modelflow_node_batches_closed_total", reason=reason, **at) == count
    assert sum(closed.values()) == stats.batches
    assert value(found, "modelflow_node_busy_seconds_total", **at) == stats.busy


def test_nodes_whose_work_is_done_elsewhere_tell_of_their_replicas():
    stats = used_flow().stats()
    figures = {"replicas": {"ready": 1, "starting": 2, "lost": 3}}
    nodes = {**stats, "odd": replace(stats["odd"], figures=figures)}
    found = samples_of(scraped(lambda: replace(stats, nodes=nodes)))
    at = {"node": "odd", "unit": "odd"}
    assert value(found, "modelflow_node_replicas", state="ready", **at) == 1
    assert value(found, "modelflow_node_replicas", state="starting", **at) == 2
    assert value(found, "modelflow_node_lost_replicas_total", **at) == 3


def test_nodes_that_run_elsewhere_are_told_of_by_replica():
    stats = used_flow(ok=20, failed=7).stats()
    replicas = {
        name: {"in": replace(stats["odd"], node="in", unit="inner", queue=queue)}
        for name, queue in (("host/1", 4), ("host/2", 5))
    }
    nodes = {**stats, "odd": replace(stats["odd"], replicas=replicas)}
    found = samples_of(scraped(lambda: replace(stats, nodes=nodes)))
    for name, queue in (("host/1", 4), ("host/2", 5)):
        at = {"node": "in", "unit": "inner", "replica": name}
        assert value(found, "modelflow_node_buffers_total", **at) == 27
        assert value(found, "modelflow_node_errors_total", kind="ValueError", **at) == 7
        assert value(found, "modelflow_node_queue_rows", **at) == queue
        assert value(found, "modelflow_node_service_seconds_bucket", le="+Inf", **at) == 27
    at = {"node": "odd", "unit": "odd", "replica": ""}
    assert value(found, "modelflow_node_buffers_total", **at) == 27


def test_counters_do_not_fall_and_nothing_is_kept_of_replicas_that_are_gone():
    stats = used_flow(ok=20).stats()
    moment = stats

    def look():
        return [moment]

    collector = FlowCollector(look)
    page = metrics_page(collector)
    busy = "modelflow_node_busy_seconds_total"
    at = {"node": "odd", "unit": "odd"}
    first = value(samples_of(asked(page)), busy, **at)
    less = replace(stats["odd"], busy=first / 2)
    moment = replace(stats, nodes={"odd": less})
    assert value(samples_of(asked(page)), busy, **at) == first
    sizes = []
    for number in range(5):
        replicas = {f"host/{number}": {"in": replace(less, node="in")}}
        moment = replace(stats, nodes={"odd": replace(less, replicas=replicas)})
        assert value(samples_of(asked(page)), busy, **at, replica="") <= first
        sizes.append(len(collector._told))
    assert len(set(sizes)) == 1


def test_the_other_form_is_read_by_its_own_parser():
    text = scraped(used_flow().stats, "application/openmetrics-text; version=1.0.0")
    families = {f.name: f for f in openmetrics.text_string_to_metric_families(text)}
    assert families["modelflow_requests"].type == "counter"
    assert families["modelflow_node_wait_seconds"].type == "histogram"


def test_counters_only_grow_while_eight_threads_work():
    with modelflow.Flow(GRAPH, units=[odd]) as flow:
        is_over = threading.Event()
        page = metrics_page(FlowCollector(lambda: [flow.stats()]))

        def use():
            while not is_over.is_set():
                flow.infer(2)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            before = {}
            for _ in range(50):
                now = samples_of(asked(page))
                for key, count in before.items():
                    if not any(gauge in key[0] for gauge in ("in_flight", "pool", "queue")):
                        assert now[key] >= count, key
                before = now
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
