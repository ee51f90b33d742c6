"""``modelflow serve``, as a process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import grpc
import pytest

from modelflow.cli.main import main

GRAPH = """digraph upper {
    input [type=input]
    upper [flowunit="units:upper"]
    output [type=output]
    input -> upper -> output
}"""
FREE = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
UNITS = """
import modelflow

@modelflow.flowunit
def upper(text: bytes):
    return text.upper()
"""


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    path = tmp_path / "upper.dot"
    path.write_text(GRAPH)
    return path


@contextlib.contextmanager
def serving(graph, *arguments):
    """The process, and its address."""
    command = [sys.executable, "-m", "modelflow", "serve", *FREE, *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=graph.parent, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stderr:
                if line.startswith("serves "):
                    yield process, line.split()[-1]
                    break
            else:
                pytest.fail("it has ended without serving")
        finally:
            process.kill()


def ask(address, name="upper"):
    body = json.dumps({"instances": ["a", "b"]}).encode()
    url = f"{address}/v1/models/{name}:predict"
    with urllib.request.urlopen(url, body, timeout=60) as response:
        return json.load(response)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_graph_is_served_until_a_signal_ends_it(graph, how, code):
    with serving(graph, "upper.dot") as (process, address):
        assert ask(address) == {"predictions": ["A", "B"]}
        process.send_signal(how)
        assert process.wait(60) == code


def test_graphs_have_the_names_that_they_are_given(graph):
    with serving(graph, "one=upper.dot", "two=upper.dot") as (_, address):
        assert ask(address, "one") == ask(address, "two") == {"predictions": ["A", "B"]}


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nothing.toml"], 1, "nothing.toml"),
        (["=x.toml"], 2, "expected NAME=GRAPH"),
        (["a.toml", "--http", "8501"], 2, "expected HOST:PORT"),
        (["a.toml", "--http", "127.0.0.1:99999"], 2, "expected HOST:PORT"),
        (["a.toml", "--grpc", "8500"], 2, "--grpc: got '8500'; expected HOST:PORT"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_is_wrong_is_said(arguments, code, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    assert ended.value.code == code
    assert text in capsys.readouterr().err


def test_grpc_is_answered_where_it_is_told(graph):
    with serving(graph, "upper.dot") as (process, _):
        told = process.stderr.readline()
        assert told.startswith("serves upper over gRPC at 127.0.0.1:")
        with grpc.insecure_channel(told.split()[-1]) as channel:
            ready = channel.unary_unary("/inference.GRPCInferenceService/ModelReady")
            assert ready(b"\n\x05upper", timeout=60) == b"\x08\x01"


def test_grpc_may_be_off(graph):
    with serving(graph, "upper.dot", "--grpc", "off") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert "gRPC" not in process.stderr.read()
        assert process.wait(60) == 143


@pytest.mark.parametrize(("asked", "is_off"), [((), True), (("--grpc", "127.0.0.1:0"), False)])
def test_without_grpcio_grpc_is_off_unless_it_is_asked_for(
    graph, monkeypatch, capsys, asked, is_off
):
    monkeypatch.setattr("modelflow.cli.serve.find_spec", lambda _: None)
    monkeypatch.chdir(graph.parent)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SystemExit) as ended:
            main(["serve", "upper.dot", "--http", http, *asked])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert ("gRPC is off" in told) == is_off
    assert f"{http}/: cannot listen there: Address already in use; give another" in told
