"""Tests of the counters in Prometheus's format."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("prometheus_client.parser", reason="prometheus-client is missing")

import modelflow
from tests.prometheus import samples_of
from tests.serve.clients import ask, send, served

PREDICT = "/v1/models/m:predict"


def metrics(server):
    """Returns every sample: (name, labels without the common labels) -> value."""
    status, headers, text = send(server, "GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=")
    return samples_of(text.decode())


def families(text):
    from prometheus_client.parser import text_string_to_metric_families

    return {family.name: family for family in text_string_to_metric_families(text)}


def test_the_counters_of_other_servers_have_their_names_and_the_type_counter():
    with served() as server:
        assert ask(server, PREDICT, {"instances": [[1.0]]})[0] == 200
        text = send(server, "GET", "/metrics")[2].decode()
    types = {name: family.type for name, family in families(text).items()}
    foreign = {name for name in types if name.startswith(("nv_inference", ":tensorflow"))}
    gauges = {"nv_inference_pending_request_count"}
    histograms = {":tensorflow:serving:request_latency"}
    assert {types[name] for name in foreign - gauges - histograms} == {"counter"}
    assert {types[name] for name in gauges} == {"gauge"}
    assert len(foreign) == 12
    lines = text.splitlines()
    assert any(line.startswith('nv_inference_count{model="m"') for line in lines)
    assert any(line.startswith(":tensorflow:serving:request_count{") for line in lines)


def test_the_process_has_the_names_of_the_python_client():
    with served() as server:
        found = families(send(server, "GET", "/metrics")[2].decode())
    assert found["modelflow_build_info"].samples[0].labels["version"] == modelflow.__version__
    for name in ("process_cpu_seconds", "process_open_fds", "process_resident_memory_bytes"):
        assert found[name].samples[0].value > 0
    assert found["process_threads"].samples[0].value >= 2
    assert {one.labels["generation"] for one in found["python_gc_collections"].samples} == set(
        "012"
    )


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(("flag", "expected"), [("01", {TRACE}), ("00", set())])
@pytest.mark.parametrize("path", [PREDICT, "/v2/models/m/infer"])
def test_a_request_of_a_sampled_trace_is_an_exemplar(flag, expected, path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    tensor = {"name": "input", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
    body = {"instances": [[1.0]]} if path == PREDICT else {"inputs": [tensor]}
    with served() as server:
        headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-{flag}"}
        status, answer, _ = ask(server, path, body, headers=headers)
        assert status == 200, answer
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        text = send(server, "GET", "/metrics", headers=accept)[2].decode()
    assert text.endswith("# EOF\n")
    known = {family.name: family for family in text_string_to_metric_families(text)}
    samples = known["modelflow_request_seconds"].samples
    found = [sample.exemplar for sample in samples if sample.exemplar is not None]
    assert {one.labels["trace_id"] for one in found} == expected
    assert all(0 < one.value < 60 and float(one.timestamp) > 1e9 for one in found)


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ('application/openmetrics-text; version="1.0.0"', "application/openmetrics-text"),
        ("application/openmetrics-text; version=x", "text/plain"),
    ],
)
def test_a_version_in_quotes_is_read_and_no_version_is_an_error(accept, media):
    with served() as server:
        status, headers, _ = send(server, "GET", "/metrics", headers={"accept": accept})
    assert (status, headers["content-type"].partition(";")[0]) == (200, media)


def test_gpus_have_tritons_names_where_nvml_is_installed(monkeypatch):
    device = SimpleNamespace(gpu=25, total=100, used=40)
    nvml = ModuleType("pynvml")
    nvml.__spec__ = ModuleSpec("pynvml", None)
    nvml.NVMLError = type("NVMLError", (Exception,), {})
    nvml.nvmlInit = nvml.nvmlShutdown = lambda: None
    nvml.nvmlDeviceGetCount = lambda: 1
    nvml.nvmlDeviceGetHandleByIndex = lambda number: number
    nvml.nvmlDeviceGetMemoryInfo = nvml.nvmlDeviceGetUtilizationRates = lambda _: device
    nvml.nvmlDeviceGetUUID = lambda number: f"GPU-{number}"
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with served() as server:
        found = metrics(server)
        label = ("gpu_uuid", "GPU-0")
        assert found["nv_gpu_utilization", label] == 0.25
        assert found["nv_gpu_memory_used_bytes", label] == 40

        def fail():
            raise nvml.NVMLError

        nvml.nvmlInit = fail
        assert not any(key[0].startswith("nv_gpu") for key in metrics(server))


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
