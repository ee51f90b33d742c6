"""The clients of ``examples/serving``, as they are, against the graphs that they ask."""

import json
import sys
from pathlib import Path

import pytest

from modelflow.config.find import ready_graphs
from modelflow.serve.server import ServeOptions, Server
from tests import programs

pytest.importorskip("tensorflow")
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "serving"


@pytest.fixture(scope="module")
def server():
    graphs = {name: ready_graphs() / f"{name}.toml" for name in ("digit", "shapes", "sentiment")}
    with Server(graphs, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


def run(*command):
    done = programs.run([*map(str, command)])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_curl_asks_in_every_way(server):
    digit, shapes, mood, predicted, inferred = map(
        json.loads, run(FOLDER / "ask.sh", server.address)
    )
    assert digit["digit"][0]["class"] == 7
    assert [box["label"] for box in shapes["boxes"]] == ["circle", "square", "triangle"]
    assert mood["mood"][0]["class"] == "positive"
    moods = [json.loads(text)[0]["class"] for text in predicted["predictions"]]
    assert moods == ["positive", "negative"]
    assert json.loads(inferred["outputs"][0]["data"][0])[0]["class"] == "negative"


def test_a_program_for_tensorflow_serving(server):
    program = FOLDER / "ask_tensorflow_serving.py"
    *found, state = run(sys.executable, program, "--server", server.address)
    assert [line.split(",")[0] for line in found] == ["digit 7", "digit 7", "positive", "negative"]
    assert state == "AVAILABLE"


@pytest.mark.parametrize("more", [(), ("--grpc",)])
def test_a_program_for_triton(server, more):
    address = server.grpc_address if more else server.address.removeprefix("http://")
    found = run(sys.executable, FOLDER / "ask_triton.py", "--server", address, *more)
    assert found == ["3 shapes: circle, square, triangle"] * 2
