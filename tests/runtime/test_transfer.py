"""Copies between devices keep what travels with a buffer."""

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.device import CPU, Device
from modelflow.errors import FlowUnitError
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.transfer import Transfer
from modelflow.unit.port import Port
from tests.device.conftest import plug_in, toy

__all__ = ["plug_in", "toy"]

TOY = Device("toy", 1)


def transfer(where=TOY, delivered=frozenset(), **port):
    stats = WorkerStats()
    return Transfer(where, [Port("in", **port)], delivered, stats), stats


def array(value=1.0):
    buffer = Buffer(np.full(2, value, np.float32), {"k": 1})
    buffer._deadline = 5.0
    return buffer


@pytest.mark.usefixtures("toy")
def test_what_lies_elsewhere_is_copied_with_its_meta_and_its_deadline():
    here, stats = transfer()
    given = array()
    ((arrived,),) = here.arrive([[given]])
    assert (arrived.device, arrived.meta, arrived._deadline) == (TOY, {"k": 1}, 5.0)
    assert given.device == CPU
    assert (stats.moved, stats.moved_bytes) == (1, 8)
    back, stats = transfer(CPU)
    ((again,),) = back.arrive([[arrived]])
    assert again.data.tolist() == [1.0, 1.0]
    assert not again.data.flags.writeable
    assert (again._deadline, stats.moved) == (5.0, 1)


@pytest.mark.usefixtures("toy")
def test_what_lies_there_or_may_lie_anywhere_is_not_touched():
    here, stats = transfer()
    ((arrived,),) = here.arrive([[array()]])
    column = [arrived, Buffer("text"), Buffer.from_error(FlowUnitError("no", node="n"))]
    assert here.arrive([column])[0] is column
    anywhere, _ = transfer(CPU, device="any")
    assert anywhere.arrive([column])[0] is column
    assert stats.moved == 1


@pytest.mark.usefixtures("toy")
def test_the_cells_of_a_gathered_stream_are_copied_one_by_one():
    here, _ = transfer()
    (((one, other),),) = here.arrive([[[array(), array()]]])
    assert (one.device, other.device) == (TOY, TOY)


@pytest.mark.usefixtures("toy")
def test_results_that_leave_the_graph_go_to_the_host_and_the_others_get_a_fence():
    here, _ = transfer(delivered=frozenset((1,)))
    (column,) = here.arrive([[array(), array()]])
    here.depart([column[:1], column[1:], [None]])
    assert column[0]._fence is not None
    assert column[0].device == TOY
    assert column[1].device == CPU
    assert not column[1].data.flags.writeable


def test_on_the_host_nothing_departs():
    here, _ = transfer(CPU)
    kept = array()
    here.depart([[kept]])
    assert kept._fence is None
