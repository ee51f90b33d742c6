"""A node while it runs: its units, its figures."""

import dataclasses

import pytest

from modelflow.device import Device
from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.kinds import running_kind
from modelflow.runtime.stage import UNMATCHED_BOUND, Stage
from modelflow.unit.kind import Kind
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import chain, spec_of
from tests.runtime.test_inbox import segment, stream

ONE, OTHER = Device("cpu", 0), Device("cpu", 1)


class Counting(FlowUnit):
    """Counts its own calls; says when it is closed."""

    def __init__(self):
        self.calls = 0
        self.is_closed = False

    def figures(self):
        return {"calls": {"made": self.calls}}

    def close(self):
        self.is_closed = True


def stage(make=Counting, **settings):
    spec = spec_of(make, is_shared=settings.pop("is_shared", True))
    plan = make_plan(chain((spec, settings))).stages["n0"]
    return Stage(plan, running_kind(spec), frozenset(), 1024, SYSTEM_CLOCK)


def test_a_shared_unit_is_one_a_device_and_is_closed_when_its_last_worker_is_done():
    here = stage()
    unit = here.open_unit(ONE)
    assert here.open_unit(ONE) is unit
    other = here.open_unit(OTHER)
    assert other is not unit
    assert (unit.device, other.device) == (ONE, OTHER)
    here.close_unit(unit, ONE)
    assert not unit.is_closed
    here.close_unit(unit, ONE)
    assert (unit.is_closed, other.is_closed) == (True, False)


def test_the_figures_of_a_closed_unit_stay_whatever_comes_at_its_place_in_memory():
    here = stage()
    one, other = here.open_unit(ONE), here.open_unit(OTHER)
    one.calls, other.calls = 3, 4
    here.close_unit(one, ONE)
    del one
    assert here.statistics().figures == {"calls": {"made": 7}}
    here.close_unit(other, OTHER)
    del other
    for _ in range(10):  # one of them may well have the address of a unit that is gone
        again = here.open_unit(ONE)
        again.calls = 1
        assert here.statistics().figures == {"calls": {"made": 5}}
        here.close_unit(again, ONE)
        del again
        here._figures.pop(ONE)


def test_the_expected_wait_is_that_of_the_rows_that_are_queued():
    here = stage(is_shared=False, threads=2)
    here.inbox.append(0, [segment(stream(), 0, 6)])
    assert here.expected_wait() is None
    here.stats[0].count(4, 0, 1.0)
    here.stats[1].count(4, 0, 3.0)  # half a second a row
    assert here.expected_wait() == 6 * 0.5 / 2


def test_close_interrupts_every_unit_whatever_another_one_raises(caplog):
    told = []

    class Interrupted(FlowUnit):
        def interrupt(self):
            told.append(self)
            raise OSError("gone")

    here = stage(Interrupted, is_shared=False)
    units = [here.open_unit(ONE) for _ in range(2)]
    here.close()
    assert told == units
    assert caplog.text.count("node 'n0': interrupt() raised") == 2


def made(spec=None, *, entry_ports=(), plan=None, **settings):
    """A stage of one node, whose plan has what ``plan`` says."""
    spec = spec or spec_of()
    found = make_plan(chain((spec, settings))).stages["n0"]
    found = dataclasses.replace(found, **(plan or {}))
    return Stage(found, running_kind(spec), frozenset(entry_ports), 7, SYSTEM_CLOCK)


def test_the_queue_of_a_stage_is_bounded_as_its_plan_says():
    here = made(threads=2, queue_size=5, batch_size=3, batch_timeout_ms=250.0, queue_bytes=1000)
    policy = here.inbox.policy
    assert (policy.bounds, policy.batch_size, policy.batch_timeout) == ((5,), 3, 0.25)
    assert (policy.byte_bound, policy.unmatched_bounds) == (1000, ())
    assert (here.inbox.node, here.inbox.ports, here.unread_bound) == ("n0", ("in",), 7)
    assert [stats.batches for stats in here.stats] == [0, 0]


def test_what_enters_a_graph_is_bounded_where_it_lacks_a_partner():
    policy = made(entry_ports=(0,)).inbox.policy
    assert policy.unmatched_bounds == (UNMATCHED_BOUND,)
    two = {"inputs": ("a", "b"), "bounds": (4, 4)}
    policy = made(spec_of(inputs=("a", "b")), entry_ports=(1,), plan=two).inbox.policy
    assert policy.unmatched_bounds[0] > UNMATCHED_BOUND
    assert policy.unmatched_bounds[1] == UNMATCHED_BOUND


@pytest.mark.parametrize(
    ("kind", "threads", "is_ordered"),
    [(Kind.NORMAL, 1, False), (Kind.NORMAL, 2, True), (Kind.STREAM, 2, False)],
)
def test_several_workers_of_a_kind_that_is_ordered_get_tickets_and_a_gate(
    kind, threads, is_ordered
):
    here = made(spec_of(kind=kind), threads=threads, queue_size=8, batch_size=2)
    here.connect([()], [], {"": 3})
    assert here.inbox.policy.is_ordered == is_ordered
    assert here.outbox._gate is (here.inbox if is_ordered else None)
    assert here.exits == {"": 3}
    if kind is Kind.NORMAL:
        assert here.outbox._limit == 8 + threads * 2


@pytest.mark.parametrize(
    ("is_shared", "batch_size", "is_measured"),
    [(True, 2, True), (True, 1, False), (False, 2, False)],
)
def test_batches_of_a_shared_unit_are_measured(is_shared, batch_size, is_measured):
    here = made(spec_of(is_shared=is_shared), batch_size=batch_size)
    assert (here.inbox.stats is not None) == is_measured


def test_workers_go_round_the_devices_and_have_a_transfer_where_data_may_move():
    plan = {"devices": (ONE, OTHER), "moves": True, "delivered": frozenset((0,))}
    here = made(threads=3, plan=plan)
    assert [here.device_of(number) for number in range(3)] == [ONE, OTHER, ONE]
    transfer = here.transfer(1)
    assert (transfer._device, transfer._delivered) == (OTHER, frozenset((0,)))
    assert transfer._stats is here.stats[1]
    assert made().transfer(0) is None


def test_a_unit_knows_what_was_planned_before_it_opens():
    seen = []

    class Looking(FlowUnit):
        def open(self, config):
            seen.append((self.device, self.batch_size, self.allowed_batch_sizes, config))

    here = made(spec_of(Looking), batch_size=4, plan={"allowed_batch_sizes": (2, 4)})
    unit = here.open_unit(OTHER)
    assert seen == [(OTHER, 4, (2, 4), here.plan.config)]
    assert here.open_unit(OTHER) is not unit


def test_shared_units_are_reloaded_and_tell_of_their_tensors():
    told = []

    class Shared(FlowUnit):
        def reload(self):
            told.append(self.device)

        def tensors(self):
            return {"in": "a spec"}

    here = stage(Shared)
    with pytest.raises(NotImplementedError, match="unit 'forward' has nothing to reload"):
        here.reload()
    assert here.tensor("in") is None
    for device in (ONE, OTHER):
        here.open_unit(device)
    here.reload()
    assert told == [ONE, OTHER]
    assert here.tensor("in") == "a spec"
    assert here.tensor("out") is None


def test_the_figures_of_a_node_are_those_of_its_workers_and_of_its_queue():
    here = made(spec_of(is_shared=True), batch_size=2, threads=2)
    here.stats[0].count(2, 1, 1.0)
    here.stats[1].count(1, 0, 1.0)
    here.inbox.append(0, [segment(stream(), 0, 3)])
    here.inbox.take_nowait()
    stats = here.statistics()
    assert (stats.node, stats.unit, stats.threads, here.done()) == ("n0", "forward", 2, 2)
    assert (stats.batches, stats.buffers, stats.errors, stats.queue) == (2, 3, 1, 1)
    assert stats.closed == {"full": 1}


def test_a_call_knows_its_node_its_inputs_and_what_reads_its_outputs():
    spec = spec_of(outputs=("a", "b"))
    here = made(
        spec_of(outputs=("a", "b")), plan={"routes": ((), ()), "is_exception_visible": True}
    )
    call = here.call_of(spec.devices["cpu"]())
    assert (call.node, call.inputs, call._consumers) == ("n0", ("in",), (0, 0))
    assert call._is_exception_visible
