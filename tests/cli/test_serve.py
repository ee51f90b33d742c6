"""``modelflow serve``, as a process."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import grpc
import pytest

from modelflow.cli.main import main
from modelflow.cli.serve.models import add_names
from tests import programs
from tests.serve.models_on_disk import write_model

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

@modelflow.flowunit
def lower(text: bytes):
    return text.lower()

class Waits(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Waits",
        {"cpu": lambda: Waits()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def open(self, config):
        with open("pipe") as pipe:
            pipe.read()
"""


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    path = tmp_path / "upper.dot"
    path.write_text(GRAPH)
    return path


@contextlib.contextmanager
def serving(graph, *arguments, said="serves "):
    """The process, and its address, once it has said something."""
    command = [sys.executable, "-m", "modelflow", "serve", *FREE, *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with programs.started(
        command, cwd=graph.parent, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if said in line:
                yield process, re.search(r"http://[\d.:]+\d", line)[0]
                break
        else:
            pytest.fail("it has ended without serving")


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


def test_units_beside_a_graph_are_found_wherever_the_command_is_started(graph):
    elsewhere = graph.parent / "elsewhere"
    elsewhere.mkdir()
    with serving(elsewhere / "here", str(graph)) as (_, address):
        assert ask(address) == {"predictions": ["A", "B"]}


def test_two_modules_of_one_name_beside_two_graphs_are_refused(graph):
    other = graph.parent / "other"
    other.mkdir()
    (other / "units.py").write_text(UNITS.replace("text.upper()", "text.lower()"))
    (other / "small.dot").write_text(GRAPH.replace("digraph upper", "digraph small"))
    command = [sys.executable, "-m", "modelflow", "serve", *FREE, "upper.dot", "other/small.dot"]
    with programs.started(command, cwd=graph.parent, stderr=subprocess.PIPE, text=True) as process:
        told = next(line for line in process.stderr if "does not load" in line)
    assert "the module 'units' beside the graph is another than the one that was" in told


def test_the_signal_to_read_again_finds_new_versions(graph):
    for number, unit in (("1", "upper"), ("2", "lower")):
        folder = graph.parent / "many" / number
        folder.mkdir(parents=True)
        (folder / "graph.dot").write_text(GRAPH.replace("units:upper", f"units:{unit}"))
    second = graph.parent / "second"
    (graph.parent / "many" / "2").rename(second)
    with serving(graph, "many") as (process, address):
        assert ask(address, "many") == {"predictions": ["A", "B"]}
        second.rename(graph.parent / "many" / "2")
        process.send_signal(signal.SIGHUP)
        while ask(address, "many") != {"predictions": ["a", "b"]}:
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_a_signal_while_a_model_is_loaded_ends_it_without_an_answer(graph):
    """The unit reads from a pipe when it opens, and so waits for this test."""
    graph.write_text(GRAPH.replace('"units:upper"', '"units:Waits", threads=1'))
    os.mkfifo(graph.parent / "pipe")
    with serving(graph, "upper.dot", said="listens at") as (process, address):
        with pytest.raises(urllib.error.HTTPError, match="503"):
            ask(address)
        with (graph.parent / "pipe").open("w"):  # the unit has come there
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(OSError):  # until it listens no more
                while True:
                    urllib.request.urlopen(f"{address}/livez", timeout=60).close()
        assert process.wait(60) == 143
        assert "serves" not in process.stderr.read()


def test_models_of_a_folder_are_named_by_their_files(graph):
    (graph.parent / "models").mkdir()
    graph.rename(graph.parent / "models" / "upper.dot")
    with serving(graph, "models", "--label", "upper:best=1") as (_, address):
        assert ask(address, "upper/labels/best") == {"predictions": ["A", "B"]}


def test_a_folder_of_toml_graphs_is_a_repository(graph):
    folder = graph.parent / "models"
    folder.mkdir()
    text = graph.read_text()
    (folder / "upper.toml").write_text(f"[graph]\ngraphconf = '''{text}'''\n")
    with serving(graph, "models") as (_, address):
        assert ask(address, "upper") == {"predictions": ["A", "B"]}


def test_what_clients_will_see_is_printed(graph, monkeypatch, capsys):
    monkeypatch.chdir(graph.parent)
    with pytest.raises(SystemExit) as ended:
        main(["serve", "upper.dot", "--describe"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "upper, version 1"
    assert lines[1].startswith("  input  input: ")
    assert lines[2].startswith("  output output: ")
    assert lines[3].endswith("http://127.0.0.1:8501/v2/models/upper/generate")


@pytest.mark.parametrize(
    ("http", "grpc", "printed"),
    [
        ("0", "0", r"http://127\.0\.0\.1:\d+\n.* 127\.0\.0\.1:\d+\n"),
        ("[::1]:0", "[::1]:0", r"http://\[::1\]:\d+\n.* \[::1\]:\d+\n"),
    ],
)
def test_addresses_are_taken_without_a_host_and_printed_as_urls(graph, http, grpc, printed):
    command = ["python", "-m", "modelflow", "serve", "upper.dot", "--http", http, "--grpc", grpc]
    with programs.started(command, cwd=graph.parent, stderr=subprocess.PIPE, text=True) as process:
        served = (line for line in process.stderr if line.startswith("serves "))
        said = next(served) + next(served)
    assert re.search(printed, said), said


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nothing.toml"], 1, "nothing.toml"),
        (["=x.toml"], 2, "expected NAME=PATH"),
        (["a.toml", "--http", "8501x"], 2, "--http 8501x: expected PORT, HOST:PORT"),
        (["a.toml", "--http", "127.0.0.1:99999"], 2, "expected PORT, HOST:PORT"),
        (
            ["a.toml", "--http", "http://0.0.0.0:80"],
            2,
            "--http http://0.0.0.0:80: expected PORT, HOST:PORT or [HOST]:PORT",
        ),
        (
            ["README.md"],
            1,
            "README.md: neither a graph nor a model; expected a graph file, a model",
        ),
        (["a.toml", "--grpc", "8500x"], 2, "--grpc 8500x: expected PORT, HOST:PORT or [HOST]:PORT"),
        ([], 2, "Missing argument"),
        (["a.toml", "--versions", "old"], 2, "--versions: got 'old'; expected latest, all"),
        (["a.toml", "--label", "a=1"], 2, "expected NAME:LABEL=VERSION"),
        (["x/a.toml", "y/a.dot"], 2, "two models have the name 'a'"),
        (["--model-config-file", "gone.config"], 1, "gone.config: cannot be read"),
    ],
)
def test_what_is_wrong_is_said(arguments, code, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    assert ended.value.code == code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["auto", "native", "grpcio"])
def test_grpc_is_answered_where_it_is_told(graph, kind):
    with serving(graph, "upper.dot", "--grpc-server", kind) as (process, _):
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
def test_without_its_packages_grpc_is_off_unless_it_is_asked_for(
    graph, monkeypatch, capsys, asked, is_off
):
    monkeypatch.setattr("modelflow.cli.serve.command.has_grpc", lambda _: False)
    monkeypatch.chdir(graph.parent)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SystemExit) as ended:
            main(["serve", "upper.dot", "--http", http, *asked])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert ("gRPC is off" in told) == is_off
    assert f"{http}/: cannot listen there: Address already in use; give another" in told


def test_a_batching_file_says_how_models_are_batched_and_a_wrong_one_ends_it(tmp_path):
    write_model(tmp_path / "m.onnx", 2)
    file = tmp_path / "batching_config.txt"
    file.write_text("max_batch_size { value: 4 }")
    option = "--batching-parameters-file"
    with serving(tmp_path / "m.onnx", "m.onnx", option, file.name) as (_, address):
        response = urllib.request.urlopen(f"{address}/v2/models/m/config", timeout=60)
        with contextlib.closing(response):
            assert json.load(response)["max_batch_size"] == 4
    file.write_text("max_batch_sise { value: 4 }")
    command = [sys.executable, "-m", "modelflow", "serve", *FREE, "m.onnx", option, file.name]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "did you mean 'max_batch_size'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_guards_a_server_stands_in_a_file_and_is_read_again(graph):
    folder = graph.parent
    (folder / "keys").write_text("old")
    (folder / "serve.toml").write_text(
        'sources = ["upper.dot"]\napi_key_file = "keys"\naccess_log = "log"\n'
    )
    with serving(graph, "--config", "serve.toml") as (process, address):

        def status(key):
            request = urllib.request.Request(f"{address}/v2", headers={"x-api-key": key})
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return response.status
            except urllib.error.HTTPError as error:
                error.close()
                return error.code

        assert (status("old"), status("new")) == (200, 401)
        (folder / "keys").write_text("new")
        (folder / "log").rename(folder / "log.1")
        process.send_signal(signal.SIGHUP)
        while status("new") != 200 or not (folder / "log").exists():
            pass
        assert status("old") == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    text = (folder / "log.1").read_text() + (folder / "log").read_text()
    lines = text.splitlines()
    assert [json.loads(line)["status"] for line in (lines[0], lines[1], lines[-1])] == [
        200,
        401,
        401,
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tls-cert", "gone.pem", "--tls-key", "gone.key"), "TLS certificate gone.pem: cannot"),
        (("--api-key-file", "gone"), "API keys gone: cannot be read"),
        (("--access-log", "gone/log"), "access log gone/log: cannot be written"),
        (("--cors-origin", "x"), "CORS origin: got 'x'"),
    ],
)
def test_what_cannot_guard_a_server_is_said_before_it_listens(graph, arguments, text):
    command = [sys.executable, "-m", "modelflow", "serve", *FREE, "upper.dot", *arguments]
    done = subprocess.run(
        command, cwd=graph.parent, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert (done.returncode, text in done.stderr) == (1, True), done.stderr
    assert "listens" not in done.stderr
    assert "give another address" not in done.stderr


def test_all_processes_have_the_names_that_were_read_first(tmp_path):
    graph = tmp_path / "one.toml"
    graph.write_text('[flow]\nname = "first"\n')
    sources = add_names((str(graph), f"x={graph}", str(tmp_path)))
    graph.write_text('[flow]\nname = "second"\n')
    assert sources[:2] == (f"first={graph}", f"x={graph}")
    graph.write_text('[flow]\nname = "../a"\n')
    assert add_names((str(graph),)) == (f"one={graph}",)
