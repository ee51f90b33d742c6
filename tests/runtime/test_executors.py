"""Tests of executors: the objects that an instance is made of, and when they are chosen."""

import sys

from modelflow.device import Device
from modelflow.runtime.stages.executors import EXECUTORS, executor_of
from modelflow.runtime.stages.executors.process_unit import ProcessUnit
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import spec_of


def test_an_executor_is_found_by_its_name():
    assert [executor_of(name).name for name in EXECUTORS] == ["thread", "process"]


def test_on_a_thread_the_unit_itself_is_made():
    class Unit(FlowUnit):
        pass

    make = executor_of("thread").prepare(spec_of(Unit), "node")
    assert type(make(Device("cpu", 0))) is Unit


def test_a_process_knows_its_unit_its_node_and_where_modules_were_found_before(monkeypatch):
    spec, before = spec_of(), tuple(sys.path)
    make = executor_of("process").prepare(spec, "node")
    monkeypatch.setattr(sys, "path", ["/elsewhere"])
    unit = make(Device("cpu", 0))
    assert isinstance(unit, ProcessUnit)
    assert (unit._spec, unit._node, unit._search_path) == (spec, "node", before)
