"""Tests of a sample of items, and of the plan that uses the sample."""

import numpy as np
import pytest
from click.testing import CliRunner

from modelflow import flowunit
from modelflow.cli.main import cli
from modelflow.graph.node import Endpoint
from modelflow.graph.read import read_graph
from modelflow.insight.tune.cut import cuts_of
from modelflow.insight.tune.sample import PassedRows, sample_of

GRAPH = """
[placement.far]
[graph]
graphconf = '''digraph {{
    input [type=input]
    first [flowunit={first}]
    second [flowunit=second, placement=far]
    output [type=output]
    input -> first -> second -> output
}}'''
"""


@flowunit
def first(value):
    """Returns the bytes of a picture, or floats; fails at zero."""
    if value == 0:
        raise ValueError("is zero")
    return np.zeros((value, 10, 3), np.uint8)


@flowunit
def floats(value):
    """Returns four times as much as `first`."""
    return np.zeros((value, 10, 3), np.float32)


@flowunit
def second(value):
    """Returns a text."""
    return "x" * value.nbytes


UNITS = [first, floats, second]


def graph_of(first="first"):
    return read_graph(GRAPH.format(first=first), format="toml", units=UNITS)


def sampled(graph, *values):
    return sample_of(graph, [{"input": value} for value in values])


def test_sizes_and_types_are_those_of_what_passed():
    found = sampled(graph_of(), 2, 4)
    assert found.passed[Endpoint("first", "out")] == PassedRows(2, 90, "UINT8 (?, 10, 3)")
    text = found.passed[Endpoint("second", "out")]
    assert (text.rows, text.tensor) == (2, "")
    assert 90 <= text.size < 120
    assert set(found.busy_us) == {"first", "second"}
    assert min(found.busy_us.values()) > 0


def test_items_that_fail_are_counted_and_told():
    found = sampled(graph_of(), 0, 4)
    assert (found.items, len(found.failed)) == (2, 1)
    assert "is zero" in str(found.failed[0])
    assert found.passed[Endpoint("first", "out")].rows == 1


def test_a_cut_has_the_sizes_of_its_sample_and_what_is_done_there():
    graph = graph_of()
    (cut,) = cuts_of(graph, sampled(graph, 100, 100))
    assert [(one.end, one.size) for one in cut.entering] == [("first:out", 3000)]
    assert cut.row_us is not None
    assert cut.work_us is not None
    assert any("the transfer to 'far' and back takes" in text for text in cut.advice)
    (blind,) = cuts_of(graph)
    assert (blind.row_us, blind.work_us, blind.advice) == (None, None, ())


def test_floats_that_were_bytes_a_node_before_are_told():
    text = GRAPH.replace("input -> first", "input -> bytes -> first")
    text = text.replace("first [", "bytes [flowunit=first] first [", 1)

    @flowunit
    def wide(value):
        return value.astype(np.float32)

    graph = read_graph(text.format(first="wide"), format="toml", units=[*UNITS, wide])
    (cut,) = cuts_of(graph, sampled(graph, 4))
    assert any("node 'first' makes FP32 of UINT8" in text for text in cut.advice)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "units.py").write_text(
        "import modelflow, numpy as np\n\n\n@modelflow.flowunit\ndef first(data):\n"
        "    return np.zeros(len(data), np.uint8)\n\n\n@modelflow.flowunit\n"
        "def second(value):\n    return value\n"
    )
    text = GRAPH.format(first='"units:first"').replace("=second", '="units:second"')
    (tmp_path / "graph.toml").write_text(text)
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("x" * 1000)
    return tmp_path


def planned(files, *words):
    return CliRunner().invoke(cli, ["ray", "plan", str(files / "graph.toml"), *words])


def test_a_plan_runs_the_first_files_to_see_what_crosses(files):
    done = planned(files, "--input", f"{files}/*.txt")
    assert done.exit_code == 0, done.output
    assert "in  first:out  UINT8 (1000,), 1.0 kB a row" in done.output
    assert "us a row; of the work there: " in done.output
    assert "give --input" in planned(files).output


def test_a_plan_with_files_for_no_input_is_refused(files):
    done = planned(files, "--input", "inptu=x")
    assert done.exit_code == 2
    assert "the graph has no input 'inptu'; did you mean 'input'?" in done.output
