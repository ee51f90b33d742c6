"""Tests of ``modelflow run --dashboard`` and ``modelflow dashboard``: addresses, ends, errors."""

import http.client
import re
import signal
import subprocess
from urllib.parse import urlsplit

import pytest

from tests import programs
from tests.in_process import run_here

UNITS = '''
import pathlib, time

import modelflow


@modelflow.flowunit
def wait(number: int):
    """Waits until there is a file."""
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return number


@modelflow.flowunit
def count():
    """Gives some numbers."""
    yield from range(3)
'''
GRAPH = """digraph waits {
    count [flowunit="units:count"]
    wait [flowunit="units:wait"]
    out [type=output]
    count -> wait -> out
}"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "graph.dot").write_text(GRAPH)
    return tmp_path


def started(folder, *arguments):
    command = ["python", "-m", "modelflow", *arguments]
    return programs.started(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def printed(process, pattern):
    """Returns the first group of the first line that matches."""
    for line in process.stderr:
        if found := re.search(pattern, line):
            return found[1]
    return pytest.fail("it has ended without a word of it")


def first_event(url):
    where = urlsplit(url)
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=programs.LIMIT)
    client.request("GET", f"/events?{where.query}")
    answer = client.getresponse()
    found = answer.readline().decode().strip(), answer.readline().decode()
    client.close()
    return found


def test_a_run_is_shown_until_it_ends(folder):
    with started(folder, "run", "--dashboard", "graph.dot") as process:
        url = printed(process, r"dashboard: (http://127\.0\.0\.1:\d+/\?token=\S+)")
        name, data = first_event(url)
        assert name == "event: picture"
        assert '"wait"' in data
        (folder / "go").touch()
        process.communicate()
        assert process.returncode == 0


def test_a_run_with_a_page_open_ends_at_once_at_a_ctrl_c(folder):
    with started(folder, "run", "graph.dot", "--dashboard") as process:
        url = urlsplit(printed(process, r"dashboard: (\S+)"))
        client = http.client.HTTPConnection(url.hostname, url.port, timeout=programs.LIMIT)
        client.request("GET", f"/events?{url.query}")
        answer = client.getresponse()
        assert answer.readline()
        process.send_signal(signal.SIGINT)
        (folder / "go").touch()
        assert b"event: end" in answer.read()
        client.close()
        process.communicate()
        assert process.returncode == 130


def test_a_flow_of_another_process_is_shown(folder):
    with started(folder, "run", "graph.dot", "--metrics", "0") as process:
        stats = printed(process, r"figures: (http\S+)/stats")
        with started(folder, "dashboard", stats, "--no-browser") as dashboard:
            name, data = first_event(printed(dashboard, r"dashboard: (\S+)"))
            assert name == "event: picture"
            assert '"source":"wait"' in data
            dashboard.send_signal(signal.SIGINT)
            dashboard.communicate()
            assert dashboard.returncode == 130
        (folder / "go").touch()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("run", "graph.dot", "--dashboard", "8o"), 2, "--dashboard 8o: expected PORT, HOST:PORT"),
        (("run", "graph.dot", "--dashboard", "192.0.2.1:0"), 1, "--dashboard 192.0.2.1:0: cannot"),
        (("dashboard", "1"), 1, "http://127.0.0.1:1/stats: no answer: "),
        (("dashboard", "ftp://there"), 1, "ftp://there: expected a port (1 to 65535), HOST:PORT"),
    ],
)
def test_what_is_wrong_is_said(folder, monkeypatch, arguments, code, text):
    (folder / "go").touch()
    monkeypatch.chdir(folder)
    done = run_here(arguments, env={})
    assert done.returncode == code
    assert text in done.stderr
