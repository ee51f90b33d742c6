"""Tests of the export of spans: the environment's settings, and an unreachable collector."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.metrics.tracing import exporting
from tests.serve.clients import ask, served
from tests.serve.processes.server_processes import serving, write_graphs
from tests.serve.test_request_context import BODY, PREDICT
from tests.serve.tracing.spans import Spans, collecting


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_spans_go_to_the_collector_and_the_last_ones_when_the_server_ends(environment):
    environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with collecting(environment) as collector:
        with served(tracing=True) as server:
            trace = ask(server, PREDICT, BODY)[2]["traceparent"].split("-")
            assert not collector.spans
        spans = [span for span in collector.spans if span.kind == span.SPAN_KIND_SERVER]
    (span,) = spans
    assert (span.trace_id.hex(), span.span_id.hex()) == (trace[1], trace[2])
    assert span.name == "POST /v1/models/{name}:predict"
    (found,) = collector.attributes()
    assert (found["service.name"], found["process.pid"]) == ("modelflow", os.getpid())


def test_spans_go_out_while_the_server_runs(environment):
    environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    with collecting(environment) as collector, served(tracing=True) as server:
        ask(server, PREDICT, BODY)
        assert collector.asked.acquire(timeout=60)
        assert collector.spans


def test_the_environment_names_the_service_and_says_how_many_are_sampled(environment):
    environment.setenv("OTEL_SERVICE_NAME", "digits")
    environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    environment.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    sampled = f"00-{'1' * 32}-{'2' * 16}-01"
    with collecting(environment) as collector:
        with served(tracing=True) as server:
            ask(server, PREDICT, BODY)
            ask(server, PREDICT, BODY, headers={"traceparent": sampled})
        traces = {span.trace_id.hex() for span in collector.spans}
    assert traces == {"1" * 32}
    found = collector.attributes()[0]
    assert (found["service.name"], found["deployment.environment"]) == ("digits", "test")


def test_a_disabled_sdk_passes_traces_on_as_they_come(environment):
    environment.setenv("OTEL_SDK_DISABLED", "true")
    parent = f"00-{'1' * 32}-{'2' * 16}-01"
    with collecting(environment) as collector, served(tracing=True) as server:
        assert (
            ask(server, PREDICT, BODY, headers={"traceparent": parent})[2]["traceparent"] == parent
        )
        assert "traceparent" not in ask(server, PREDICT, BODY)[2]
    assert not collector.spans


def test_a_console_is_told_of_spans(environment, capsys):
    environment.setenv("OTEL_TRACES_EXPORTER", "console")
    with served(tracing=True) as server:
        ask(server, PREDICT, BODY)
    assert '"POST /v1/models/{name}:predict"' in capsys.readouterr().out


def test_nobody_is_told_where_that_is_asked_for(environment):
    environment.setenv("OTEL_TRACES_EXPORTER", "none")
    with collecting(environment) as collector, served(tracing=True) as server:
        assert "traceparent" in ask(server, PREDICT, BODY)[2]
    assert not collector.spans


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("OTEL_TRACES_EXPORTER", "otpl", r"got 'otpl'; expected one of otlp, .* mean 'otlp'\?"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", r"got 'grpc'; expected http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", r"got 'grpc'; expected http/protobuf"),
    ],
)
def test_what_the_environment_asks_for_and_is_not_there_is_an_error(environment, name, value, text):
    environment.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}: {text}"):
        served(tracing=True).start()


@pytest.mark.parametrize("name", ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"])
def test_a_number_that_is_too_small_is_an_error(environment, name):
    environment.setenv(name, "-1")
    with pytest.raises(ConfigError, match=r"^tracing: .* variable OTEL_\.\.\. .* must be"):
        served(tracing=True).start()


def test_nothing_is_left_of_tracing_where_the_access_log_cannot_be_written(environment, tmp_path):
    before = {*threading.enumerate()}
    with pytest.raises(ConfigError, match="access log"):
        served(tracing=True, access_log=str(tmp_path / "gone" / "log")).start()
    assert {*threading.enumerate()} <= before


def test_a_server_ends_where_no_collector_is_and_says_so_once(environment, caplog):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and no process listens
        port = taken.getsockname()[1]
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        environment.setattr(exporting, "_LAST_SECONDS", 0.1)
        with caplog.at_level(logging.WARNING), served(tracing=True) as server:
            for _ in range(3):
                assert ask(server, PREDICT, BODY)[0] == 200
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert said[0].startswith("traces: otlp does not take spans: ")
    assert said[1].startswith("traces: ")
    assert said[1].endswith(" spans were lost")


def test_a_server_ends_where_the_collector_never_answers(environment, caplog):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
        for name in ("_LAST_SECONDS", "_LAST_OF_LOST"):
            environment.setattr(exporting, name, 0.1)
        with caplog.at_level(logging.WARNING):
            with served(tracing=True) as server:
                assert ask(server, PREDICT, BODY)[0] == 200
            assert "no answer at the end" in caplog.text
    for thread in threading.enumerate():  # its connection has ended with the socket
        if thread.name in {"modelflow/traces", "OtelBatchSpanRecordProcessor"}:
            thread.join(60)


def test_an_exporter_that_raises_is_one_that_does_not_take_spans(environment, caplog):
    class Raising:
        def export(self, spans):
            raise OSError("the disk is full")

        def shutdown(self):
            pass

    environment.setitem(exporting._EXPORTERS, "console", Raising)
    environment.setenv("OTEL_TRACES_EXPORTER", "console")
    with caplog.at_level(logging.WARNING), served(tracing=True) as server:
        assert ask(server, PREDICT, BODY)[0] == 200
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "traces: console does not take spans: OSError: the disk is full",
        "traces: 2 spans were lost",
    ]


def test_what_a_collector_refuses_is_said_once_and_when_it_takes_them_again(environment, caplog):
    environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    with collecting(environment) as collector, caplog.at_level(logging.WARNING):
        collector.refuses = True
        with served(tracing=True) as server:
            for refused in (True, True, False):
                collector.refuses = refused
                ask(server, PREDICT, BODY)
                assert collector.asked.acquire(timeout=60)
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in said] == ["traces"] * len(said)
    assert sum("does not take" in text for text in said) == 1
    assert sum("taken again" in text for text in said) == 1


def test_a_provider_that_is_given_stays_its_owners(environment):
    spans = Spans()
    for _ in range(2):
        with served(tracing=spans.provider) as server:
            ask(server, PREDICT, BODY)
    assert len(spans.requests) == 2


# -- the command line -----------------------------------------------------------------------------


def test_replicas_send_their_spans_each(environment, tmp_path):
    write_graphs(tmp_path)
    (tmp_path / "serve.toml").write_text('sources = ["m.dot"]\nreplicas = 2\notel = true\n')
    with collecting(environment) as collector:
        with serving(tmp_path, "--config", "serve.toml") as replica_group:
            asked = {replica_group.who() for _ in range(6)}
            assert len(asked) == 2
            assert replica_group.end(signal.SIGTERM) == 143
        assert {found["process.pid"] for found in collector.attributes()} == asked
        names = sorted({span.name for span in collector.spans})
    assert names == ["POST /v1/models/{name}:predict", "who"]
    assert len(collector.spans) == 12


# -- off ------------------------------------------------------------------------------------------

_OFF = """
import sys
from tests.serve.clients import ask, served
with served() as server:
    assert ask(server, "/v1/models/m:predict", {"instances": [[1.0]]})[0] == 200
names = ("opentelemetry", "modelflow.serve.metrics.tracing")
print([name for name in sys.modules if name.startswith(names)])
"""


def test_nothing_of_tracing_is_imported_where_nobody_asks_for_it():
    done = subprocess.run(
        [sys.executable, "-c", _OFF], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_tracing_without_its_packages_names_the_extra(tmp_path):
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from modelflow.cli.main import main\n"
        "sys.argv = ['modelflow', 'serve', 'g.toml', '--otel', '--http', '127.0.0.1:0', "
        "'--grpc', 'off']\n"
        "main()"
    )
    (tmp_path / "g.toml").write_text(GRAPH)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "tracing (--otel) needs the package 'opentelemetry-sdk', which is not installed; "
        "install it with: pip install 'modelflow-graph[otel]'"
    )


GRAPH = """
[graph]
format = "graphviz"
graphconf = '''digraph m {
    input [type=input]
    output [type=output]
    input -> output
}'''
"""
