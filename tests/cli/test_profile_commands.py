"""Tests of commands that observe a flow: ``profile``, ``top``, ``run`` with trace or metrics."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent import futures

import pytest

from modelflow.profile.snapshot import Snapshot
from tests import programs

WAITING = """
[graph]
format = "graphviz"
graphconf = '''digraph slow {
    input [type=input]
    decode [flowunit=image_decoder]
    sleep [flowunit="sleeping:sleep"]
    output [type=output]
    input -> decode -> sleep -> output }'''
"""
SLEEPING = '''
import time
import modelflow

@modelflow.flowunit
def sleep(image, *, seconds: float = 0.01):
    """Takes its time."""
    time.sleep(seconds)
    return image
'''


@pytest.fixture
def slow(folder):
    (folder / "slow.toml").write_text(WAITING)
    (folder / "sleeping.py").write_text(SLEEPING)
    return folder


def test_profile_shows_each_node_and_writes_figures_and_trace(modelflow_here, slow):
    done = modelflow_here(
        *("profile", "slow.toml", "--input", "photos", "--seconds", "0.5"),
        *("--json", "p.json", "--trace", "t.json"),
    )
    assert done.returncode == 0, done.stderr
    first, heads, *rows = done.stdout.splitlines()
    assert re.match(r"slow: \d\.\d s, .* requests/s \(1 ok\), 0 in flight; p50 ", first)
    assert heads.split()[:2] == ["node", "threads"]
    assert [row.split()[0] for row in rows] == ["decode", "sleep"]
    found = Snapshot.read(json.loads((slow / "p.json").read_text()))
    assert found.stats["sleep"].buffers == found.stats["decode"].buffers >= 2
    events = json.loads((slow / "t.json").read_text())
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"decode", "sleep"}


def test_profile_shows_what_there_is_after_a_ctrl_c(slow):
    command = [sys.executable, "-m", "modelflow", "profile", "slow.toml", "--input", "photos"]
    command += ["--seconds", "600", "--trace", "t.json"]
    with programs.started(command, cwd=slow, stdout=subprocess.PIPE, text=True) as process:
        while not (slow / "t.json").exists() or '"X"' not in (slow / "t.json").read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 130
    assert "1 cancelled" in text
    assert "sleep" in text
    assert json.loads((slow / "t.json").read_text())  # whole


def test_profile_of_a_graph_with_sources_ends_in_time(modelflow_here):
    done = modelflow_here("profile", "digits", "--seconds", "0.2")
    assert done.returncode == 0, done.stderr
    assert "digits: " in done.stdout


def test_profile_cannot_read_standard_input_again(modelflow_here):
    done = modelflow_here("profile", "small.toml", "--input", "-", input="")
    assert done.returncode == 2
    assert "standard input can be read once" in done.stderr


@pytest.mark.parametrize("command", ["run", "profile"])
def test_a_trace_that_cannot_be_written_is_a_clear_error(modelflow_here, command):
    done = modelflow_here(command, "small.toml", "--input", "photos", "--trace", "none/t.json")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "trace none/t.json: cannot be written: No such file or directory"
    )


def test_run_writes_a_trace(modelflow_here, folder):
    done = modelflow_here("run", "small.toml", "--input", "photos", "--trace", "t.json")
    assert done.returncode == 0, done.stderr
    assert any(event["ph"] == "X" for event in json.loads((folder / "t.json").read_text()))


@pytest.fixture
def watched(slow):
    """Yields the port of the metrics of a flow that runs until the end of its standard input."""
    command = [sys.executable, "-m", "modelflow", "run", "slow.toml", "--metrics", "0"]
    command += ["--input", "-", "--set", "sleep.seconds=3600"]
    with programs.started(
        command, cwd=slow, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        line = process.stderr.readline().decode()
        yield re.search(r"http://(127\.0\.0\.1:\d+)/metrics", line)[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=programs.LIMIT)


def test_a_run_answers_with_metrics_and_figures(watched):
    def ask(path):
        with urllib.request.urlopen(f"http://{watched}{path}", timeout=programs.LIMIT) as answer:
            return answer.read().decode()

    assert 'modelflow_node_workers{flow="slow",node="sleep",unit="sleep"}' in ask("/metrics")
    assert json.loads(ask("/stats"))["flow"]["name"] == "slow"
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        ask("/elsewhere")
    refused.value.close()


def test_top_shows_a_run(modelflow_here, watched):
    done = modelflow_here("top", watched, "--interval", "0.1", "--count", "2")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^slow: \d+\.\d s, ", done.stdout, re.MULTILINE)) == 2
    assert done.stdout.count("decode") == 2


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("1", "http://127.0.0.1:1/stats: no answer: "),
        ("ftp://there", "ftp://there: expected a port (1 to 65535), HOST:PORT or a URL"),
    ],
)
def test_top_says_what_is_wrong(modelflow_here, url, text):
    done = modelflow_here("top", url)
    assert done.returncode == 1
    assert done.stderr.startswith(text)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (b"", "the server closed the connection without an answer; it may have too many"),
        (b"\0\0\x12\x04\0", "the server there does not speak HTTP; is it a port for gRPC?"),
        (
            b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\r\n"
            b'{"error": {"type": "Service Unavailable", "message": "too many connections"}}',
            "503 Service Unavailable: too many connections\n",
        ),
    ],
)
def test_top_says_why_a_server_gives_no_figures(modelflow_here, reply, text):
    def answer():
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with futures.ThreadPoolExecutor(1) as pool:
            pool.submit(answer)
            done = modelflow_here("top", address)
    assert done.returncode == 1
    assert done.stderr.startswith(f"http://{address}/stats: {text}")


@pytest.mark.parametrize("address", ["x", "1:x", ":1", "70000"])
def test_the_address_of_the_metrics_is_checked(modelflow_here, address):
    done = modelflow_here("run", "small.toml", "--input", "photos", "--metrics", address)
    assert done.returncode == 2
    assert f"--metrics {address}: expected PORT, HOST:PORT or [HOST]:PORT" in done.stderr
