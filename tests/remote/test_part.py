"""Tests of a part in its replica."""

import threading
from pathlib import Path

import pytest

from modelflow import Flow, flowunit
from modelflow.graph.read import read_graph
from modelflow.plan.partition import find_partitions
from modelflow.remote.message import Rows
from modelflow.remote.part import PartFlow, part_of
from modelflow.starters.template import write_template

GRAPH = """
[graph]
graphconf = '''digraph {
    input [type=input]
    work [flowunit=gated, threads=1, batch_size=1]
    output [type=output]
    input -> work -> output
}'''
"""


RELATIVE = """
[driver]
dir = ["units"]
[placement.far]
[graph]
graphconf = '''digraph {
    input [type=input]
    work [flowunit=scaled, factor=3.0, placement=far]
    output [type=output]
    input -> work -> output
}'''
"""


def rows_of(*values):
    return Rows("part", {"input": (list(values), [None] * len(values))}, [None] * len(values))


def test_rows_that_nobody_waits_for_any_more_are_given_up(caplog):
    seen, gate = [], threading.Semaphore(3)

    @flowunit
    def gated(value):
        gate.acquire()
        seen.append(value)
        return value

    def gone(_):
        gate.release(1000)
        raise BrokenPipeError("nobody hears it")

    part = PartFlow(Flow(GRAPH, units=[gated])).start()
    with pytest.raises(BrokenPipeError, match="nobody hears it"):
        part.answer(rows_of(*range(12)), sign=gone)
    assert part.answer(rows_of("next")).columns["output"][0] == ["next"]
    part.stop()
    assert "next" in seen
    assert len(seen) < 10
    assert not caplog.records


def test_a_graph_of_a_relative_path_has_its_units_found_from_another_folder(tmp_path, monkeypatch):
    write_template("unit", "normal", "scaled", tmp_path / "units")
    (tmp_path / "graph.toml").write_text(RELATIVE)
    monkeypatch.chdir(tmp_path)
    (partition,) = find_partitions(read_graph(Path("graph.toml")))
    part = part_of(partition, ())
    monkeypatch.chdir("/")
    started = PartFlow.of(part).start()
    (port,) = partition.graph.inputs
    rows = Rows("part", {port: ([4.0], [None])}, [None])
    assert [data for data, _ in started.answer(rows).columns.values()] == [[12.0]]
    started.stop()
