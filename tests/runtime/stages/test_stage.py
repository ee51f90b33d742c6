"""Tests of a running node: its queue, and the expected wait."""

import dataclasses
import functools

import pytest

from modelflow.device import Device
from modelflow.plan import make_plan
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.kinds import running_kind
from modelflow.runtime.kinds.normal import NormalCall
from modelflow.runtime.stages.stage import UNMATCHED_BOUND, Stage
from modelflow.unit.kind import Normal, Stream
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import chain, graph_of, spec_of
from tests.runtime.queues.test_inbox import segment, stream

ONE, OTHER = Device("cpu", 0), Device("cpu", 1)


def made(spec=None, *, entry_ports=(), plan=None, unit=None, **settings):
    """Returns a stage of one node; ``plan`` and ``unit`` replace fields of the two plans."""
    found = make_plan(chain((spec or spec_of(), settings))).stages["n0"]
    one = dataclasses.replace(found.unit, **(unit or {}))
    found = dataclasses.replace(found, units=(one,), **(plan or {}))
    return Stage(found, running_kind(found.units), frozenset(entry_ports), 7, SYSTEM_CLOCK)


def test_the_expected_wait_is_that_of_the_rows_that_are_queued():
    here = made(threads=2)
    here.inbox.append(0, [segment(stream(), 0, 6)])
    assert here.figures.estimate_wait() is None
    here.figures.workers[0].count(4, 0, 1.0)
    here.figures.workers[1].count(4, 0, 3.0)  # half a second a row
    assert here.figures.estimate_wait() == 6 * 0.5 / 2


def test_close_interrupts_every_unit_whatever_another_one_raises(caplog):
    told = []

    class Interrupted(FlowUnit):
        def interrupt(self):
            told.append(self)
            raise OSError("gone")

    here = made(spec_of(Interrupted))
    units = [here.instances[0].open(ONE) for _ in range(2)]
    here.close()
    assert told == units
    assert caplog.text.count("node 'n0': interrupt() raised") == 2


def test_the_queue_of_a_stage_is_bounded_as_its_plan_says():
    here = made(threads=2, queue_size=5, batch_size=3, batch_timeout_ms=250.0, queue_bytes=1000)
    policy = here.inbox.policy
    assert (policy.bounds, policy.batch_size, policy.batch_timeout) == ((5,), 3, 0.25)
    assert (policy.byte_bound, policy.unmatched_bounds) == (1000, ())
    assert (here.inbox.node, here.inbox.ports, here.unread_bound) == ("n0", ("in",), 7)
    assert [stats.batches for stats in here.figures.workers] == [0, 0]


def test_what_enters_a_graph_is_bounded_where_it_lacks_a_partner():
    policy = made(entry_ports=(0,)).inbox.policy
    assert policy.unmatched_bounds == (UNMATCHED_BOUND,)
    two = made(
        spec_of(inputs=("a", "b")),
        entry_ports=(1,),
        plan={"bounds": (4, 4)},
        unit={"inputs": ("a", "b")},
    )
    policy = two.inbox.policy
    assert policy.unmatched_bounds[0] > UNMATCHED_BOUND
    assert policy.unmatched_bounds[1] == UNMATCHED_BOUND


@pytest.mark.parametrize(
    ("kind", "threads", "is_ordered"),
    [(Normal(), 1, False), (Normal(), 2, True), (Stream(), 2, False)],
)
def test_several_workers_of_a_kind_that_is_ordered_get_tickets_and_a_gate(
    kind, threads, is_ordered
):
    here = made(spec_of(kind=kind), threads=threads, queue_size=8, batch_size=2)
    here.connect([()], [], {"": 3})
    assert here.inbox.policy.is_ordered == is_ordered
    assert here.outbox._gate is (here.inbox if is_ordered else None)
    assert here.exits == {"": 3}
    if isinstance(kind, Normal):
        assert here.outbox._limit == 8 + threads * 2


@pytest.mark.parametrize(
    ("is_shared", "batch_size", "is_measured"),
    [(True, 2, True), (True, 1, False), (False, 2, False)],
)
def test_batches_of_a_shared_unit_are_measured(is_shared, batch_size, is_measured):
    here = made(spec_of(is_shared=is_shared), batch_size=batch_size)
    assert here.inbox.policy.is_measured == here.inbox.is_noting == is_measured


def test_workers_go_round_the_devices_and_have_a_transfer_where_data_may_move():
    plan = {"devices": (ONE, OTHER), "moves": True, "delivered": frozenset((0,))}
    here = made(threads=3, plan=plan)
    assert [here.device_of(number) for number in range(3)] == [ONE, OTHER, ONE]
    transfer = here.transfer(1)
    assert (transfer._device, transfer._delivered) == (OTHER, frozenset((0,)))
    assert transfer._stats is here.figures.workers[1]
    assert made().transfer(0) is None


def test_the_figures_of_a_node_are_those_of_its_workers_and_of_its_queue():
    here = made(spec_of(is_shared=True), batch_size=2, threads=2)
    here.figures.workers[0].count(2, 1, 1.0)
    here.figures.workers[1].count(1, 0, 1.0)
    here.inbox.append(0, [segment(stream(), 0, 3)])
    here.inbox.take_nowait()
    (stats,) = here.figures.nodes()
    assert (stats.node, stats.unit, stats.threads, here.figures.count_calls()) == (
        "n0",
        "forward",
        2,
        2,
    )
    assert (stats.batches, stats.buffers, stats.errors, stats.queue) == (2, 3, 1, 1)
    assert stats.closed == {"full": 1}


def test_a_call_is_of_the_kind_and_knows_the_plan_of_its_unit():
    spec = spec_of(outputs=("a", "b"))
    here = made(spec)
    (call,) = here.calls_of([spec.devices["cpu"]()])
    assert type(call) is NormalCall
    assert call.plan is here.plan.unit


def source():
    """Returns the stage of a source of two threads."""
    nodes = {"n0": (spec_of(inputs=()), {"threads": 2, "batch_size": 3}), "output": "output"}
    found = make_plan(graph_of(nodes, ["n0 -> output"])).stages["n0"]
    return Stage(found, running_kind(found.units), frozenset(), 7, SYSTEM_CLOCK)


def test_a_node_that_nothing_feeds_has_room_for_one_row():
    here = source()
    assert (here.inbox.policy.bounds, here.order._width) == ((1,), 1)
    here.connect([()], [], {})
    assert here.outbox._limit == 1 + here.plan.threads * here.plan.batch_size


@pytest.mark.parametrize(("is_matching", "width"), [(True, 2), (False, 1)])
def test_inputs_are_columns_where_they_are_paired(is_matching, width):
    unit = {"inputs": ("a", "b")}
    of_two = made(spec_of(inputs=("a", "b")), plan={"bounds": (4, 4)}, unit=unit)
    kind = dataclasses.replace(of_two.kind, is_matching=is_matching)
    here = Stage(of_two.plan, kind, frozenset(), 7, SYSTEM_CLOCK)
    assert (here.order._width, here.inbox._matcher is not None) == (width, is_matching)


def test_a_stage_that_is_not_connected_leads_nowhere():
    here = made()
    assert here.exits == {}
    here.close()


@pytest.mark.parametrize(("kind", "seconds"), [(Normal(), 0.5), (Stream(), 0.0)])
def test_only_kinds_that_gather_wait_for_a_batch_to_fill(kind, seconds):
    here = made(spec_of(kind=kind), batch_size=2, batch_timeout_ms=500)
    assert here.inbox.policy.batch_timeout == seconds


def fused():
    """Returns the stage of two nodes, of which the second has a shared unit."""
    settings = {"threads": 2, "batch_size": 2, "fuse": "a"}
    units = [spec_of(name="one"), spec_of(name="two", is_shared=True)]
    (found,) = make_plan(chain(*((unit, settings) for unit in units))).stages.values()
    return Stage(found, running_kind(found.units), frozenset(), 7, SYSTEM_CLOCK)


def test_nodes_of_one_stage_have_figures_of_their_own_and_the_queue_is_the_first_one_s():
    here = fused()
    assert [len(workers) for workers in here.figures.units] == [2, 2]
    assert not {*map(id, here.figures.workers)} & {
        id(s) for workers in here.figures.units for s in workers
    }
    here.figures.units[0][1].count(2, 0, 1.0)
    here.figures.units[1][1].count(2, 1, 3.0)
    here.inbox.append(0, [segment(stream(), 0, 3)])
    here.inbox.take_nowait()
    one, two = here.figures.nodes()
    assert [(s.node, s.unit, s.threads, s.queue) for s in (one, two)] == [
        ("n0", "one", 2, 1),
        ("n1", "two", 2, 0),
    ]
    assert [(s.errors, s.busy) for s in (one, two)] == [(0, 1.0), (1, 3.0)]
    assert (one.closed, two.closed) == ({"full": 1}, {})


def test_each_unit_of_a_stage_has_its_call_and_its_instances():
    here = fused()
    assert [instances.plan.node for instances in here.instances] == ["n0", "n1"]
    units = [instances.open(ONE) for instances in here.instances]
    assert [unit.batch_size for unit in units] == [2, 2]
    calls = here.calls_of(units)
    assert [(call.unit, call.plan) for call in calls] == [*zip(units, here.plan.units, strict=True)]


def test_the_figures_of_a_unit_s_own_are_among_those_of_its_node():
    class Counting(FlowUnit):
        def figures(self):
            return {"calls": {1: 2}}

    here = made(spec_of(Counting, is_shared=True))
    here.instances[0].open(ONE)
    assert here.figures.nodes()[0].figures == {"calls": {1: 2}}


def test_close_wakes_whoever_waits_before_and_behind(monkeypatch):
    here, closed = made(), []
    here.connect([()], [], {})
    for queue in (here.inbox, here.outbox):
        monkeypatch.setattr(queue, "close", functools.partial(closed.append, queue))
    here.close()
    assert closed == [here.inbox, here.outbox]
