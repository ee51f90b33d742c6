"""``modelflow load``."""

import json
import signal
import subprocess
import sys

import pytest

from tests import programs
from tests.cli.test_profile_commands import SLEEPING, WAITING
from tests.serve.clients import served


@pytest.fixture
def marking(folder):
    """Returns a graph whose unit takes 0.2 s, and writes a file at its first call."""
    (folder / "slow.toml").write_text(WAITING.replace(':sleep"', ':sleep", seconds=0.2'))
    text = SLEEPING.replace("import modelflow\n", "import modelflow, modelflow.errors\n")
    text = text.replace("    time.sleep", "    open('begun', 'w').close()\n    time.sleep")
    (folder / "sleeping.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def url():
    with served() as server:
        yield f"{server.address}/v1/models/m:predict"


def test_rates_get_a_row_each_and_all_figures_a_file(modelflow_here, folder):
    done = modelflow_here(
        *("load", "small.toml", "--input", "photos", "--rate", "40,80", "--arrivals", "constant"),
        *("--seconds", "0.5", "--warm-up", "0.1", "--json", "load.json", "--per-second"),
    )
    assert done.returncode == 0, done.stderr
    name, heads, first, second, *seconds = done.stdout.splitlines()
    assert name == "small"
    assert heads.split()[:4] == ["load", "offered/s", "answered/s", "ok"]
    assert first.split()[:2] == ["40/s", "40.0"]
    assert second.split()[:2] == ["80/s", "80.0"]
    assert [line.split()[0] for line in seconds] == ["40/s:", "0", "80/s:", "0"]
    document = json.loads((folder / "load.json").read_text())
    assert document["version"] == 1
    assert [load["outcomes"] for load in document["loads"]] == [{"ok": 20}, {"ok": 40}]


def test_clients_send_a_number_of_requests(modelflow_here):
    done = modelflow_here(
        *("load", "small.toml", "--input", "photos", "--clients", "1,3", "--requests", "20"),
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["1", "client"], ["3", "clients"]]
    assert {row[4] for row in rows} == {"20"}


def test_a_server_is_asked_with_files(modelflow_here, folder, url):
    (folder / "good.json").write_text('{"instances": [[1.0]]}')
    (folder / "wrong.json").write_text("{")
    arguments = ("--clients", "2", "--requests", "40", "--warm-up", "0", "--header", "X-A: b")
    done = modelflow_here("load", url, "--body", "*.json", *arguments)
    assert done.returncode == 0, done.stderr
    name, _, row, note = done.stdout.splitlines()
    assert name == url
    assert row.split()[4:6] == ["20", "20"]
    assert note == "2 clients: not answered well: 20 HTTP 400"


def test_it_fails_where_nothing_is_answered_well(modelflow_here, url):
    # Without a body, the request is a GET, which the route does not accept.
    done = modelflow_here("load", url, "--clients", "1", "--requests", "3", "--warm-up", "0")
    assert done.returncode == 1, done.stderr
    assert "3 HTTP 405" in done.stdout


def test_a_body_may_come_from_standard_input(modelflow_here, url):
    arguments = ("--clients", "1", "--requests", "3", "--warm-up", "0", "--body", "-")
    done = modelflow_here("load", url, *arguments, input='{"instances": [[1.0]]}')
    assert done.returncode == 0, done.stdout


def test_a_client_that_is_late_is_warned_of(modelflow_here):
    # All requests are due at once, and are sent one after the other.
    done = modelflow_here(
        *("load", "small.toml", "--input", "photos", "--rate", "1e6", "--max-in-flight", "2"),
        *("--warm-up", "0", "--requests", "20000"),
    )
    assert "shed" in done.stdout
    assert "warning: 1e+06/s: the client itself was late. 1 % of the requests" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_shows_what_there_is(marking, number, code):
    command = [sys.executable, "-m", "modelflow", "load", "slow.toml", "--input", "photos"]
    command += ["--clients", "2", "--warm-up", "0", "--seconds", "600", "--json", "load.json"]
    with programs.started(
        command, cwd=marking, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (marking / "begun").exists():
            assert process.poll() is None
        process.send_signal(number)
        text, _ = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == code
    assert text.splitlines()[2].startswith("2 clients")
    (load,) = json.loads((marking / "load.json").read_text())["loads"]
    assert load["is_whole"] == (number == signal.SIGTERM)
    # Requests in progress are finished at a SIGTERM, and given up at a Ctrl-C.
    wanted = {"unfinished": 2} if number == signal.SIGINT else {}
    assert {name: n for name, n in load["outcomes"].items() if name != "ok"} == wanted


def test_figures_are_shown_of_a_flow_that_fails(modelflow_here, marking):
    text = (marking / "sleeping.py").read_text()
    end = "    raise modelflow.errors.EndFlow('enough')\n"
    (marking / "sleeping.py").write_text(text.replace("    return image\n", end))
    done = modelflow_here(
        "load", "slow.toml", "--input", "photos", "--clients", "1", "--warm-up", "0"
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[2].startswith("1 client")
    assert "enough" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["small.toml"], 2, "--rate and --clients: got neither; give one"),
        (["small.toml", "--rate", "1", "--clients", "1"], 2, "got both; give one"),
        (["small.toml", "--rate", "0"], 2, "--rate: got 0.0; expected more than 0 and at most 1e"),
        (["small.toml", "--rate", "2e6"], 2, "--rate: got 2000000.0; expected more than 0"),
        (["small.toml", "--rate", "1,x"], 2, "--rate 1,x: got 'x'; expected 100 or 100,200,400"),
        (["small.toml", "--clients", "1.5"], 2, "got '1.5'; expected 8 or 1,8,64"),
        (["small.toml", "--clients", "1", "--warm-up", "-1"], 2, "--warm-up: got -1.0; expected"),
        (["small.toml", "--rate", "1e6", "--seconds", "60"], 2, "--rate and --seconds: got 61000"),
        (["small.toml", "--rate", "1"], 2, "the graph's input 'input' gets nothing"),
        (["small.toml", "--rate", "1", "--input", "inptu=photos"], 2, "no input 'inptu'; did you"),
        (
            ["small.toml", "--rate", "1", "--body", "x"],
            2,
            "small.toml is no URL: --body is for URL",
        ),
        (
            ["small.toml", "--rate", "1", "--input", "none"],
            1,
            "--input none: there is no such file",
        ),
        (["digits", "--rate", "1"], 1, "digits: has no inputs, so no requests can be sent; 'model"),
        (["http://127.0.0.1:1/", "--rate", "1"], 1, "http://127.0.0.1:1/: cannot connect: Connect"),
        (["ftp://x", "--rate", "1"], 1, "ftp://x: expected a URL in ASCII that begins with http"),
        (
            ["http://x", "--rate", "1", "--input", "photos", "--set", "a.b=c"],
            2,
            "http://x is no graph: --input and --set are for graphs",
        ),
        (["http://x", "--rate", "1", "--header", "a"], 2, "--header a: expected NAME:VALUE"),
        (["http://x", "--rate", "1", "--body", "no"], 1, "--body no: there is no such file"),
    ],
)
def test_what_is_wrong_is_said(modelflow_here, arguments, code, text):
    done = modelflow_here("load", *arguments)
    assert done.returncode == code
    assert text in done.stderr.splitlines()[-1]


def test_files_that_are_too_large_to_keep_are_refused(modelflow_here, folder):
    with (folder / "large.png").open("wb") as file:
        file.truncate((1 << 30) + 1)  # a sparse file takes no room
    done = modelflow_here("load", "small.toml", "--input", "large.png", "--rate", "1")
    assert done.returncode == 1
    assert "--input: the files have 1073741825 bytes; expected at most 1073741824" in done.stderr
