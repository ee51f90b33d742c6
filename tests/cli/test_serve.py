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
from tests.in_process import run_here
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
    """Yields the process and its address after the process has printed a text."""
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


def ask(address, name="upper", key="none"):
    body = json.dumps({"instances": ["a", "b"]}).encode()
    url = f"{address}/v1/models/{name}:predict"
    request = urllib.request.Request(url, body, {"x-api-key": key})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_graphs_have_the_names_that_they_are_given_until_an_interrupt_ends_all(graph):
    """Tests that units next to a graph are found from any working folder; gRPC may be off."""
    elsewhere = graph.parent / "elsewhere"
    elsewhere.mkdir()
    names = (f"one={graph}", f"two={graph}", str(graph))
    with serving(elsewhere / "here", *names, "--grpc", "off") as (process, address):
        for name in ("one", "two", "upper"):
            assert ask(address, name) == {"predictions": ["A", "B"]}
        process.send_signal(signal.SIGINT)
        assert "gRPC" not in process.stderr.read()
        assert process.wait(60) == 130


def test_two_modules_of_one_name_beside_two_graphs_are_refused(graph):
    other = graph.parent / "other"
    other.mkdir()
    (other / "units.py").write_text(UNITS.replace("text.upper()", "text.lower()"))
    (other / "small.dot").write_text(GRAPH.replace("digraph upper", "digraph small"))
    command = [sys.executable, "-m", "modelflow", "serve", *FREE, "upper.dot", "other/small.dot"]
    with programs.started(command, cwd=graph.parent, stderr=subprocess.PIPE, text=True) as process:
        told = next(line for line in process.stderr if "does not load" in line)
    assert "the module 'units' next to the graph is not the one" in told


def test_what_a_file_of_options_names_is_read_again_at_a_signal(graph):
    """Tests a folder of graphs as a repository, whose models have the names of files or folders."""
    folder, models = graph.parent, graph.parent / "models"
    models.mkdir()
    (models / "upper.toml").write_text(f"[graph]\ngraphconf = '''{graph.read_text()}'''\n")
    for path, unit in (("many/1", "upper"), ("second", "lower")):
        (folder / path).mkdir(parents=True)
        (folder / path / "graph.dot").write_text(GRAPH.replace("units:upper", f"units:{unit}"))
    (folder / "keys").write_text("old")
    (folder / "serve.toml").write_text(
        'sources = ["models", "many"]\napi_key_file = "keys"\naccess_log = "log"\n'
        'drain_delay = 0.1\nlabel = ["upper:best=1"]\n'
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
        assert ask(address, "upper/labels/best", "old") == {"predictions": ["A", "B"]}
        assert ask(address, "many", "old") == {"predictions": ["A", "B"]}
        (folder / "second").rename(folder / "many" / "2")
        (folder / "keys").write_text("new")
        (folder / "log").rename(folder / "log.1")
        process.send_signal(signal.SIGHUP)
        while status("new") != 200 or not (folder / "log").exists():
            pass
        while ask(address, "many", "new") != {"predictions": ["a", "b"]}:
            pass
        assert status("old") == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    text = (folder / "log.1").read_text() + (folder / "log").read_text()
    lines = [json.loads(line)["status"] for line in text.splitlines()]
    assert (lines[:2], lines[-1]) == ([200, 401], 401)


def test_a_signal_while_a_model_is_loaded_ends_it_without_an_answer(graph):
    """Uses a unit that reads from a pipe in `open`, and so waits for this test."""
    graph.write_text(GRAPH.replace('"units:upper"', '"units:Waits", threads=1'))
    os.mkfifo(graph.parent / "pipe")
    with serving(graph, "upper.dot", said="listens at") as (process, address):
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            ask(address)
        refused.value.close()
        with (graph.parent / "pipe").open("w"):  # the unit has reached the pipe
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(OSError):  # until the server no longer listens
                while True:
                    urllib.request.urlopen(f"{address}/livez", timeout=60).close()
        assert process.wait(60) == 143
        assert "serves" not in process.stderr.read()


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
    ("host", "kind", "printed"),
    [("", "auto", r"127\.0\.0\.1"), ("[::1]:", "native", r"\[::1\]"), ("", "grpcio", ".*")],
)
def test_addresses_are_taken_without_a_host_and_answered_as_printed(graph, host, kind, printed):
    words = ("upper.dot", "--http", f"{host}0", "--grpc", f"{host}0", "--grpc-server", kind)
    command = ["python", "-m", "modelflow", "serve", *words]
    with programs.started(command, cwd=graph.parent, stderr=subprocess.PIPE, text=True) as process:
        served = (line for line in process.stderr if line.startswith("serves "))
        http, over_grpc = next(served), next(served)
        assert re.search(rf"http://{printed}:\d+\n", http)
        assert re.search(rf"serves upper over gRPC at {printed}:\d+\n", over_grpc)
        with grpc.insecure_channel(over_grpc.split()[-1]) as channel:
            ready = channel.unary_unary("/inference.GRPCInferenceService/ModelReady")
            assert ready(b"\n\x05upper", timeout=60) == b"\x08\x01"


CLASS = """
import modelflow


class Factor(modelflow.PythonModel):
    inputs = (modelflow.Port("x", dtype="float32", shape="(2,)"),)
    outputs = (modelflow.Port("y", dtype="float32", shape="(2,)"),)

    def load(self, path, device):
        text = (path / "factor" if path.is_dir() else path).read_text()
        self.factor = float(text.strip('{"learner: }'))

    def predict(self, x):
        return x * x.dtype.type(self.factor)
"""
FORMS = {
    "file": ("model.factor", "model.factor"),
    "json": ("model.json", "model.json"),
    "folder": ("model", "model/factor"),
    "versions": ("model", "model/3/model.txt"),
    "replicas": ("model.factor", "model.factor", "--replicas", "2"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_class_serves_a_model_that_no_engine_reads(form, tmp_path):
    source, place, *more = FORMS[form]
    (tmp_path / "factors.py").write_text(CLASS)
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"learner": 3}' if form == "json" else "3")
    engine = ("--engine", "factors:Factor")
    with serving(tmp_path / "here", source, *engine, *more, said="serves model") as (_, address):
        body = json.dumps({"instances": [[1, 2], [3, 4]]}).encode()
        url = f"{address}/v1/models/model:predict"
        with urllib.request.urlopen(url, body, timeout=60) as response:
            assert json.load(response) == {"predictions": [[3, 6], [9, 12]]}


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


def test_a_batching_file_says_how_models_are_batched_and_a_wrong_one_ends_it(tmp_path, monkeypatch):
    write_model(tmp_path / "m.onnx", 2)
    file = tmp_path / "batching_config.txt"
    file.write_text("max_batch_size { value: 4 }")
    option = "--batching-parameters-file"
    with serving(tmp_path / "m.onnx", "m.onnx", option, file.name) as (_, address):
        response = urllib.request.urlopen(f"{address}/v2/models/m/config", timeout=60)
        with contextlib.closing(response):
            assert json.load(response)["max_batch_size"] == 4
    file.write_text("max_batch_sise { value: 4 }")
    monkeypatch.chdir(tmp_path)
    ended = run_here(("serve", *FREE, "m.onnx", option, file.name), env={})
    assert ended.returncode != 0
    assert "did you mean 'max_batch_size'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tls-cert", "gone.pem", "--tls-key", "gone.key"), "TLS certificate gone.pem: cannot"),
        (("--api-key-file", "gone"), "API keys gone: cannot be read"),
        (("--access-log", "gone/log"), "access log gone/log: cannot be written"),
        (("--cors-origin", "x"), "CORS origin: got 'x'"),
    ],
)
def test_what_cannot_guard_a_server_is_said_before_it_listens(graph, monkeypatch, arguments, text):
    monkeypatch.chdir(graph.parent)
    done = run_here(("serve", *FREE, "upper.dot", *arguments), env={})
    assert (done.returncode, text in done.stderr) == (1, True), done.stderr
    assert "listens" not in done.stderr
    assert "give another address" not in done.stderr


def test_all_processes_have_the_names_that_were_read_first(tmp_path):
    graph = tmp_path / "one.toml"
    graph.write_text('[flow]\nname = "first"\n')
    given = {"engine": "", "cache_dir": None, "cache_size": None}
    sources = add_names((str(graph), f"x={graph}", str(tmp_path)), given)
    graph.write_text('[flow]\nname = "second"\n')
    assert sources[:2] == (f"first={graph}", f"x={graph}")
    graph.write_text('[flow]\nname = "../a"\n')
    assert add_names((str(graph),), given) == (f"one={graph}",)
