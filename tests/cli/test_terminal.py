"""Tests of the commands on a terminal of 80 columns, on a dumb terminal, and in a pipe."""

import contextlib
import re

import pytest

from modelflow.cli.insight.stats_table import choose_columns
from modelflow.cli.run.metrics_server import MetricsServer
from modelflow.flow import Flow
from modelflow.profile.snapshot import Snapshot
from tests.terminal import WIDTH, lines_of, on_terminal

GRAPH = """
[graph]
graphconf = '''digraph slow {
    input [type=input] output [type=output]
    a_node_whose_name_is_rather_long [flowunit="slow_units:wait"]
    load [flowunit="slow_units:Model"]
    input -> a_node_whose_name_is_rather_long -> load -> output
}'''
"""

UNITS = """
import logging
import time
from pathlib import Path

import modelflow


@modelflow.flowunit
def wait(data):
    logging.getLogger("modelflow").warning("this message of a unit " + "is rather long " * 8)
    time.sleep(0.1)
    return data


class Model(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        name="model",
        devices={"cpu": "slow_units:Model"},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def open(self, config):
        while Path("hold").exists():
            time.sleep(0.01)

    def process(self, ctx):
        ctx.emit([buffer.data for buffer in ctx.input("in")])
"""

PLAIN = [{"TERM": "dumb"}, {"NO_COLOR": "1"}]


@pytest.fixture
def slow(tmp_path, monkeypatch):
    (tmp_path / "slow.toml").write_text(GRAPH)
    (tmp_path / "slow_units.py").write_text(UNITS)
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


COMMANDS = {
    "run": ("run", "slow.toml", "--input", "*.txt", "--output", "out/"),
    "profile": ("profile", "slow.toml", "--input", "*.txt", "--seconds", "0.5"),
    "check": ("check", "-v", "slow.toml"),
    "pack": ("pack", "slow.toml"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal(slow, command):
    code, text = on_terminal(slow, *COMMANDS[command])
    assert code == 0, text
    assert max(map(len, lines_of(text))) <= WIDTH, text


@pytest.mark.parametrize("command", [*COMMANDS, "doctor"])
@pytest.mark.parametrize("env", PLAIN, ids=str)
def test_a_dumb_terminal_gets_no_escape_codes_and_without_colour_none_for_looks(slow, command, env):
    given = COMMANDS.get(command) or ("doctor", *COMMANDS["profile"][1:])
    _, text = on_terminal(slow, *given, env=env)
    found = re.findall("\x1b.*?[A-Za-z]", text)
    if "TERM" in env:
        assert not found, text
    assert not any(code.endswith("m") for code in found), text


def test_a_log_message_does_not_share_the_line_of_the_progress(slow):
    _, text = on_terminal(slow, *COMMANDS["run"])
    found = [line for line in lines_of(text) if "WARNING" in line]
    assert found
    assert all(line.startswith("WARNING: this message") for line in found), text


def test_results_do_not_share_the_line_of_the_progress(slow):
    _, text = on_terminal(slow, *COMMANDS["run"][:4])
    results = [line for line in lines_of(text) if '"index"' in line]
    assert len(results) == 2
    assert all(line.startswith('{"index"') for line in results), text


@pytest.mark.parametrize("command", ["run", "profile", "doctor"])
def test_a_unit_that_loads_is_named(slow, command):
    given = COMMANDS.get(command) or ("doctor", *COMMANDS["profile"][1:])
    loading = re.compile(r"loading load \(model\) \.\.\. \d+ s")

    def release(text):
        if loading.search(text):
            (slow / "hold").unlink(missing_ok=True)

    (slow / "hold").touch()
    code, text = on_terminal(slow, *given, watch=release)
    assert code in (0, 3), text
    assert loading.search(text)


def test_top_fits_and_names_the_columns_that_do_not(slow):
    with serving(slow) as address:
        code, text = on_terminal(slow, "top", address, "--interval", "0.2", "--count", "2")
    assert code == 0, text
    assert max(map(len, lines_of(text))) <= WIDTH, text
    assert "a_node_whose_name_is_rather_long" in text
    assert "a wider terminal also shows: " in text


@contextlib.contextmanager
def serving(folder):
    """Serves the figures of a flow, and yields the address."""
    with (
        contextlib.chdir(folder),
        Flow("slow.toml") as flow,
        MetricsServer("0", flow.stats, lambda: Snapshot.of_flow(flow).document()) as server,
    ):
        yield server.url


def test_quiet_and_pipes_show_no_loading(slow, modelflow):
    _, text = on_terminal(slow, *COMMANDS["run"], "--quiet")
    assert "loading" not in text
    done = modelflow("run", str(slow / "slow.toml"), "--input", "*.txt")
    assert done.returncode == 0, done.stderr
    assert "loading" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_the_columns_that_fit_are_the_important_ones():
    rows = [["name", "aaaa", "bbbb", "cccc"], ["x" * 10, "1", "2", "3"]]
    assert choose_columns(rows, [0, 3, 1, 2], 100) == [0, 1, 2, 3]
    assert choose_columns(rows, [0, 3, 1, 2], 22) == [0, 1, 3]
    assert choose_columns(rows, [0, 3, 1, 2], 21) == [0, 3]
    assert choose_columns(rows, [0, 3, 1, 2], 3) == [0]
    rows[1][3] = ""
    assert choose_columns(rows, [0, 3, 1, 2], 22) == [0, 1, 2]
