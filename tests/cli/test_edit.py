"""Tests of ``modelflow edit``: its address, its end, errors."""

import http.client
import json
import re
import signal
import subprocess
from urllib.parse import urlsplit

import pytest

from tests import programs

UNITS = '''
import modelflow


@modelflow.flowunit
def twice(number: int):
    """Doubles."""
    return 2 * number
'''
GRAPH = """digraph g {
    input[type=input]
    twice[flowunit="units:twice"]
    output[type=output]
    input -> twice -> output
}
"""


def started(folder, *arguments):
    command = ["python", "-m", "modelflow", "edit", *arguments, "--no-browser"]
    return programs.started(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_it_says_where_it_is_and_ends_with_ctrl_c(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "units.py").write_text(UNITS)
    (tmp_path / "app" / "graph.dot").write_text(GRAPH)
    with started(tmp_path, "app/graph.dot") as process:
        found = re.fullmatch(
            r"editor: (http://127\.0\.0\.1:\d+/\?token=.+)\n", process.stderr.readline()
        )
        assert found is not None
        where = urlsplit(found[1])
        client = http.client.HTTPConnection(where.hostname, where.port, timeout=programs.LIMIT)
        client.request("POST", f"/api/open?{where.query}", "{}")
        opened = json.loads(client.getresponse().read())
        assert opened["text"] == GRAPH
        assert opened["findings"] == []  # a unit named by module is in a file next to the graph
        process.send_signal(signal.SIGINT)
        assert process.wait(programs.LIMIT) == 130
        client.close()
    assert sorted(path.name for path in (tmp_path / "app").iterdir() if path.is_file()) == [
        "graph.dot",
        "units.py",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["graph.yaml"], 1, "YAML is not edited"),
        (["graph"], 1, "got the suffix ''"),
        (["."], 2, "is a directory"),
        (["g.dot", "--listen", "x"], 2, "--listen x: expected PORT, HOST:PORT"),
        (["g.dot", "--listen", "192.0.2.1:0"], 1, "--listen 192.0.2.1:0: cannot listen there"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_is_wrong_is_said_at_once(tmp_path, arguments, code, said):
    with started(tmp_path, *arguments) as process:
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == code
    assert said in errors
