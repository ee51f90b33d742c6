"""``modelflow load``: on a graph, on a server."""

import json
import re
import signal
import subprocess
import sys

import pytest

from tests import programs
from tests.cli.test_serve import GRAPH, UNITS, serving


def test_a_graph_is_loaded_at_each_rate_and_all_of_it_is_written(modelflow, folder):
    done = modelflow(
        *("load", "small.toml", "--input", "photos", "--rate", "50,100", "--seconds", "0.5"),
        *("--warm-up", "0.1", "--json", "l.json"),
    )
    assert done.returncode == 0, done.stderr
    heads, *rows = done.stdout.splitlines()
    assert heads.split()[0] == "load"
    assert [row.split()[0] for row in rows] == ["50/s", "100/s"]
    document = json.loads((folder / "l.json").read_text())
    assert [run["load"] for run in document["runs"]] == ["50/s", "100/s"]
    assert set(document["runs"][0]["latency"]) >= {"mean", "p50", "p99", "p99.9", "p100"}
    assert document["runs"][0]["outcomes"]["ok"] > 0


def test_clients_wait_for_their_answers(modelflow):
    done = modelflow(
        "load", "small.toml", "--input", "photos", "--clients", "2", "--seconds", "0.3"
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^2 clients +\d+\.\d .* \d+ ok", done.stdout, re.MULTILINE)


def test_a_server_is_loaded_over_http(tmp_path):
    graph = tmp_path / "upper.dot"
    graph.write_text(GRAPH)
    (tmp_path / "units.py").write_text(UNITS)
    with serving(graph, "upper.dot") as (server, address):
        (graph.parent / "body.json").write_text('{"instances": ["a", "b"]}')
        command = [sys.executable, "-m", "modelflow", "load"]
        command += [f"{address}/v1/models/upper:predict", "--body", "body.json"]
        command += ["--clients", "2", "--seconds", "0.3"]
        done = programs.run(command, cwd=graph.parent, text=True)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=programs.LIMIT)
    assert done.returncode == 0, done.stderr
    assert re.search(r" \d+ ok$", done.stdout.splitlines()[1].rstrip())


def test_nothing_answered_well_is_an_exit_code(modelflow):
    done = modelflow("load", "http://127.0.0.1:1/", "--seconds", "0.2", "--warm-up", "0")
    assert done.returncode == 1
    assert "ConnectionRefusedError" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["small.toml", "--input", "photos", "--rate", "0"], 2, "--rate 0: expected numbers above"),
        (["small.toml", "--input", "photos", "--rate", "5,x"], 2, "--rate 5,x: expected numbers"),
        (["small.toml", "--rate", "5", "--clients", "1"], 2, "--rate and --clients: give one"),
        (["small.toml", "--input", "photos", "--body", "x"], 2, "--body is for a URL"),
        (["small.toml"], 2, "the graph's input 'input' gets nothing"),
        (["http://x/", "--input", "photos"], 2, "--input is for a graph"),
        (["http://x/", "--header", "x"], 2, "--header x: expected NAME: VALUE"),
        (["http://x/", "--body", "none"], 1, "--body none: there is no such file"),
        (["digits"], 1, "has no inputs, so nothing can be sent"),
    ],
)
def test_bad_input_is_said_exactly(modelflow, arguments, code, message):
    done = modelflow("load", *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert message in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_stopped(folder, number):
    command = [sys.executable, "-m", "modelflow", "load", "small.toml", "--input", "photos"]
    with programs.started(
        [*command, "--seconds", "600"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert "for 600 s" in process.stderr.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
