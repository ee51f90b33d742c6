"""Tests that copies between devices keep the meta and the deadline of a buffer."""

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.device import CPU, Device
from modelflow.errors import FlowUnitError
from modelflow.runtime.stages.transfer import Transfer
from modelflow.runtime.stats import WorkerStats
from modelflow.unit.port import Port
from tests.device.conftest import plug_in, toy
from tests.device.toy import ToyMemory

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


def test_what_has_no_port_passes_and_what_is_on_the_host_stays_there():
    here, stats = transfer(CPU)
    columns = [[array()], ["a token"]]
    arrived = here.arrive(columns)
    assert [one is other for one, other in zip(arrived, columns, strict=True)] == [True, True]
    assert stats.moved == 0


def test_of_a_column_only_what_lies_elsewhere_is_replaced(toy):
    here, stats = transfer()
    text, bad = Buffer("text"), Buffer.from_error(FlowUnitError("no", node="n"))
    (arrived,) = here.arrive([[array(1.0), text, array(2.0), bad]])
    assert [arrived[1], arrived[3]] == [text, bad]
    assert [b.data.values(TOY).tolist() for b in arrived[::2]] == [[1.0, 1.0], [2.0, 2.0]]
    assert (toy.uploads, toy.downloads) == (1, 0)
    here.arrive([arrived])
    assert (toy.uploads, toy.downloads, stats.moved) == (1, 0, 2)


def test_between_devices_of_one_kind_nothing_goes_by_way_of_the_host(toy):
    (column,) = transfer(Device("toy", 0))[0].arrive([[array()]])
    ((arrived,),) = transfer()[0].arrive([column])
    assert arrived.device == TOY
    assert (toy.uploads, toy.downloads) == (2, 0)


class Other(ToyMemory):
    """The memory of another kind of device."""

    kind = "other"

    def holds(self, data):
        return super().holds(data) and data.device.kind == "other"


class Own(ToyMemory):
    """The memory of toys, in addition to the other kind's memory."""

    def holds(self, data):
        return super().holds(data) and data.device.kind == "toy"

    def upload(self, arrays, device):
        assert all(isinstance(array, np.ndarray) for array in arrays)
        return super().upload(arrays, device)


def test_between_kinds_of_device_everything_goes_by_way_of_the_host(plug_in):
    plug_in(other=f"{__name__}:Other", toy=f"{__name__}:Own")
    (column,) = transfer(Device("other", 0))[0].arrive([[array(3.0)]])
    here, stats = transfer()
    ((arrived,),) = here.arrive([column])
    assert arrived.device == TOY
    assert arrived.data.values(TOY).tolist() == [3.0, 3.0]
    assert stats.moved == 1


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("wanted", "found"), [("cpu", CPU), ("toy", TOY), (None, TOY)])
def test_a_port_may_want_its_data_on_the_host_or_on_the_unit_s_own_device(wanted, found):
    (column,) = transfer(Device("toy", 0))[0].arrive([[array()]])
    ((arrived,),) = transfer(device=wanted)[0].arrive([column])
    assert arrived.device == found


def test_each_fence_is_waited_for_once_with_the_arrays_behind_it(toy, monkeypatch):
    here, _ = transfer()
    (column,) = here.arrive([[array(), array(), array(), array()]])
    one, other = object(), object()
    for buffer, fence in zip(column, (one, other, one, None), strict=True):
        buffer._fence = fence
    waits = []
    monkeypatch.setattr(toy, "wait", lambda fence, arrays: waits.append((fence, arrays)))
    here.arrive([column])
    data = [buffer.data for buffer in column]
    assert waits == [(one, [data[0], data[2]]), (other, [data[1]])]


def test_results_are_fenced_by_the_worker_s_device_and_its_calls_run_in_its_context(
    toy, monkeypatch
):
    here, _ = transfer(delivered=frozenset((1,)))
    monkeypatch.setattr(toy, "fence", lambda device: ("fence", device))
    monkeypatch.setattr(toy, "running", lambda device: ("running", device))
    ((moved,),) = here.arrive([[array()]])
    text, bad = Buffer("text"), Buffer.from_error(FlowUnitError("no", node="n"))
    here.depart([[moved, text, bad], [text]])
    assert (moved._fence, text._fence, bad._fence) == (("fence", TOY), None, None)
    assert toy.downloads == 0
    assert here.running() == ("running", TOY)
