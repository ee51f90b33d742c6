"""Tests of the counters in Prometheus's format."""

import pytest

pytest.importorskip("prometheus_client.parser", reason="prometheus-client is missing")

from tests.prometheus import samples_of
from tests.serve.clients import ask, send, served

PREDICT = "/v1/models/m:predict"


def metrics(server):
    """Returns every sample: (name, labels without the common labels) -> value."""
    status, headers, text = send(server, "GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=")
    return samples_of(text.decode())


def test_counters_agree_with_what_the_clients_saw():
    with served(max_requests=10) as server:
        for _ in range(3):
            assert ask(server, PREDICT, {"instances": [[1.0], [2.0]]})[0] == 200
        assert ask(server, PREDICT, {"instances": [[]]})[0] == 400
        assert ask(server, PREDICT, {"instances": [[-1.0]]})[0] == 500
        found = metrics(server)
    model = (("model", "m"), ("version", "1"))

    def value(name, *labels):
        return found[name, *sorted([*labels])]

    assert value("modelflow_requests_total", ("code", "OK"), *model) == 3
    assert value("modelflow_requests_total", ("code", "INVALID_ARGUMENT"), *model) == 1
    assert value("modelflow_requests_total", ("code", "INTERNAL"), *model) == 1
    assert value("modelflow_requests_under_way", *model) == 0
    assert value("modelflow_request_seconds_count", *model) == 3
    assert value("modelflow_node_buffers_total", ("node", "mean"), ("unit", "mean"), *model) == 8
    assert value("modelflow_versions", ("state", "AVAILABLE"), *model) == 1
    assert value("nv_inference_request_success", *model) == 3
    assert value("nv_inference_request_failure", ("reason", "OTHER"), *model) == 2
    assert value("nv_inference_count", *model) == 6
    status = ("model_name", "m"), ("status", "OK")
    assert value(":tensorflow:serving:request_count", *status) == 3


def test_a_server_that_was_asked_nothing_says_zero():
    with served() as server:
        found = metrics(server)
    assert {value for key, value in found.items() if "success" in key[0]} == {0}


def test_prometheus_finds_them_where_tensorflow_serving_has_them():
    with served() as server:
        status, headers, text = send(server, "GET", "/monitoring/prometheus/metrics")
        assert (status, headers["content-type"]) == (
            200,
            send(server, "GET", "/metrics")[1]["content-type"],
        )
        assert b"nv_inference_request_success" in text
