"""Tests of the unchanged clients of ``examples/serving`` against their graphs."""

import contextlib
import functools
import http.server
import json
import sys
import threading
from pathlib import Path

import pytest

from modelflow.serve.server import ServeOptions, Server
from modelflow.starters.ready import ready_graphs
from tests import programs
from tests.browser import browsing, needs_browser

pytest.importorskip("tensorflow")
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "serving"


@pytest.fixture(scope="module")
def server():
    graphs = {
        name: ready_graphs() / f"{name}.toml" for name in ("digit", "detect_classify", "sentiment")
    }
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
    names = sorted(found["classes"][0]["class"] for found in shapes["objects"])
    assert names == ["circle", "square", "triangle"]
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


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves files without log lines."""

    def log_message(self, *said):
        pass


@contextlib.contextmanager
def another_origin():
    """Serves the folder of the examples from another origin."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Files, directory=FOLDER)
    ) as files:
        thread = threading.Thread(target=files.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{files.server_port}"
        finally:
            files.shutdown()
            thread.join()


@needs_browser
def test_the_page_draws_what_was_found_in_a_picture():
    shapes = {"detect_classify": ready_graphs() / "detect_classify.toml"}
    with another_origin() as origin, browsing() as browser:
        options = ServeOptions(http_port=0, cors_origins=(origin,))
        with Server(shapes, options) as server:
            browser.open(f"{origin}/picture.html?server={server.address}")
            browser.type("//input[@id='file']", str(FOLDER / "shapes.png"))
            said = "return document.getElementById('said').textContent"
            found = browser.until(f"{said}.includes('shapes:') && {said.removeprefix('return ')}")
            assert found == "3 shapes: circle, square, triangle"
            drawn = browser.run(
                "const seen = document.getElementById('seen');"
                "const pixels = seen.getContext('2d').getImageData(0, 0, seen.width, seen.height);"
                "return [...pixels.data].filter((v, i) => i % 4 == 0 && v == 255).length"
            )
            assert drawn > 50


@needs_browser
def test_the_page_says_when_the_server_takes_no_pages_of_others():
    shapes = {"detect_classify": ready_graphs() / "detect_classify.toml"}
    with (
        another_origin() as origin,
        browsing() as browser,
        Server(shapes, ServeOptions(http_port=0)) as server,
    ):
        browser.open(f"{origin}/picture.html?server={server.address}")
        browser.type("//input[@id='file']", str(FOLDER / "shapes.png"))
        said = "document.getElementById('said').textContent"
        found = browser.until(f"return {said}.startsWith('http') && {said}")
        assert found == f"{server.address}: Failed to fetch"
