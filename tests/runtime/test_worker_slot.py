"""Tests of the thread that runs a stage: its own, a producer's, or a single caller's."""

import asyncio
import dataclasses
import sys
import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError, StreamClosed
from modelflow.plan import SLOW_ROW
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.segment import Segment, Stream
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.worker_slot import CHEAP, Handoff
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.fake_session import FakeSession
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of


def here():
    return threading.current_thread().name


def noting(threads, **members):
    """Returns a unit that records the threads of its calls."""

    def process(self, ctx):
        threads.append(here())
        ctx.emit(ctx.input())

    return alone(spec_of(type("Noting", (FlowUnit,), {"process": process, **members})))


def alone(spec):
    """Returns a graph of one node with one worker."""
    return spec, {"threads": 1}


# -- a lone caller ------------------------------------------------------------------------------


def test_a_lone_caller_works_for_its_answer_on_its_own_thread():
    threads = []
    with Running(chain(noting(threads), noting(threads))) as flow:
        assert flow.infer(1, timeout=None).data == 1
    assert threads == [here(), here()]


def test_a_unit_that_opens_something_is_called_where_it_was_opened():
    opened, called = [], []
    spec = noting(called, open=lambda _, __: opened.append(here()))
    with Running(chain(spec)) as flow:
        assert flow.infer(1, timeout=None).data == 1
    assert called == opened == ["modelflow/test/n0/0"]


def test_a_unit_with_a_constructor_of_its_own_is_called_where_it_was_made():
    made, called = [], []
    spec = noting(called, __init__=lambda _: made.append(here()))
    with Running(chain(spec)) as flow:
        assert flow.infer(1, timeout=None).data == 1
    assert called == made


def test_a_unit_that_opens_something_may_say_that_any_thread_will_do():
    called = []
    spec = noting(called, open=lambda _, __: None, is_any_thread=True)
    with Running(chain(spec)) as flow:
        assert flow.infer(1, timeout=None).data == 1
    assert called == [here()]


class Free(FlowUnit):
    def process(self, ctx):
        ctx.emit(ctx.input())


class Bound(Free):
    def open(self, config):
        pass


class Again(Bound):
    pass


class Opening:
    def open(self, config):
        pass


class Mixed(Opening, Free):
    pass


@dataclasses.dataclass
class Made(Free):
    connection: object = dataclasses.field(default_factory=object)


class Willing(Mixed):
    is_any_thread = True


@pytest.mark.parametrize(
    ("kind", "is_lendable"),
    [(Free, True), (Bound, False), (Again, False), (Mixed, False), (Made, False), (Willing, True)],
)
def test_a_class_that_makes_something_by_whatever_way_stays_on_its_thread(kind, is_lendable):
    with Running(chain(alone(spec_of(kind)))) as flow:
        assert flow.scheduler._workers[0].slot.is_lendable is is_lendable


def test_a_unit_that_only_computes_may_be_called_on_any_thread_whatever_its_class_makes():
    with Running(chain(alone(spec_of(Bound, is_compute_bound=True)))) as flow:
        assert flow.scheduler._workers[0].slot.is_lendable


def test_where_another_session_is_open_the_stages_run_on_their_own_threads():
    threads = []
    with Running(chain(noting(threads))) as flow, flow.session():
        assert flow.infer(1, timeout=None).data == 1
    assert threads == ["modelflow/test/n0/0"]


def test_a_caller_in_an_event_loop_leaves_the_stages_to_their_threads():
    threads = []
    with Running(chain(noting(threads))) as flow:

        async def ask():
            return flow.infer(1, timeout=None).data

        assert asyncio.run(ask()) == 1
    assert threads == ["modelflow/test/n0/0"]


@pytest.mark.parametrize("limit", [{"timeout": 60.0}, {"deadline": 60.0}])
def test_a_caller_with_a_time_limit_makes_no_call_itself_however_short_calls_are(limit):
    threads = []
    with Running(chain(noting(threads)), clock=FakeClock()) as flow:
        flow.session().exchange({"input": (0,)})
        assert flow.scheduler._workers[0].slot.is_cheap
        for value in range(2):
            found = flow.session().exchange({"input": (value,)}, **limit)
            assert told(found["output"]) == [value]
    assert threads == [here(), *["modelflow/test/n0/0"] * 2]


def test_two_inputs_of_a_lone_caller_meet_in_one_node():
    threads = []

    def add(ctx):
        threads.append(here())
        ctx.emit([a.data + b.data for a, b in zip(*ctx.inputs.values(), strict=True)])

    nodes = {"a": "input", "b": "input", "sum": unit_of(add, inputs=("x", "y")), "out": "output"}
    graph = graph_of(nodes, ["a -> sum:x", "b -> sum:y", "sum -> out"])
    with Running(graph) as flow:
        found = flow.session().exchange({"a": (1,), "b": (2,)})
    assert told(found["out"]) == [3]
    assert threads == [here()]


def test_ctrl_c_in_a_unit_on_the_callers_thread_stays_a_ctrl_c_and_breaks_nothing():
    calls = []

    def once(value):
        calls.append(value)
        if value == "stop":
            raise KeyboardInterrupt
        return value

    with Running(chain(per_item(str), per_item(once), per_item(str))) as flow:
        with pytest.raises(KeyboardInterrupt):
            flow.infer("stop", timeout=None)
        assert flow.scheduler.count_held() == {}
        assert flow.infer("go on", timeout=None).data == "go on"
    assert calls == ["stop", "go on"]


@pytest.mark.parametrize("call", range(1, 30))
def test_ctrl_c_at_any_call_of_the_runtime_on_the_callers_thread_leaves_every_stage_alive(call):
    """Interrupts the call at this place among the calls behind `send`."""
    left = -1
    watched = ("stand_in", "take_nowait", "cut", "run", "emit", "append", "give_back", "put")

    def interrupt(frame, event, _):
        nonlocal left
        if event == "call" and frame.f_code.co_name in watched:
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    with Running(chain(per_item(str), per_item(str), per_item(str))) as flow:
        flow.infer(0, timeout=None)
        left = call
        sys.setprofile(interrupt)
        try:
            flow.infer(1, timeout=None)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert flow.infer(2).data == "2"
        assert flow.scheduler.count_held() == {}


def test_stop_called_in_a_unit_on_the_callers_thread_says_that_it_waits_for_itself():
    def stop(value):
        flow.scheduler.stop()

    with Running(chain(per_item(stop))) as flow, pytest.raises(FlowUnitError, match="wait=False"):
        flow.infer(1, timeout=None)


def test_branches_with_long_calls_run_side_by_side_for_a_lone_caller():
    both = threading.Barrier(2)

    def process(ctx):
        both.wait(60)
        ctx.emit(ctx.input())

    def pair(ctx):
        ctx.emit(ctx.inputs["a"])

    nodes = {
        "input": "input",
        "a": alone(unit_of(process)),
        "b": alone(unit_of(process)),
        "pair": unit_of(pair, inputs=("a", "b")),
        "output": "output",
    }
    edges = ["input -> a", "input -> b", "a -> pair:a", "b -> pair:b", "pair -> output"]
    with Running(graph_of(nodes, edges)) as flow:
        assert flow.infer(1, timeout=None).data == 1


def test_rows_of_a_lone_caller_are_worked_on_by_several_workers():
    all_in = threading.Barrier(3)

    def process(ctx):
        all_in.wait(60)
        ctx.emit(ctx.input())

    spec = unit_of(process), {"threads": 3, "batch_size": 8}
    with Running(chain(spec)) as flow:
        found = flow.session().exchange({"input": [1, 2, 3]})
        assert [buffer.data for buffer in found["output"]] == [1, 2, 3]


def test_a_unit_is_closed_only_when_the_caller_that_runs_it_has_come_back():
    events, inside, go_on = [], threading.Event(), threading.Event()

    def process(ctx):
        inside.set()
        assert go_on.wait(60)
        events.append("processed")
        ctx.emit(ctx.input())

    spec = alone(unit_of(process, hooks={"close": lambda: events.append("closed")}))
    flow = Running(chain(spec))
    flow.scheduler.start()
    caller = threading.Thread(target=lambda: ignored(flow.infer, 1, timeout=None))
    caller.start()
    assert inside.wait(60)
    flow.scheduler.request_stop(drain=False)
    stage = next(iter(flow.scheduler._wiring.stages.values()))
    with stage.inbox._lock:
        closed = stage.inbox._is_closed
    while not closed:  # the first step of the stop, which waits for no thread
        with stage.inbox._lock:
            closed = stage.inbox._is_closed
    assert events == []
    go_on.set()
    caller.join(60)
    flow.scheduler.stop()
    assert events == ["processed", "closed"]


def ignored(call, *given, **named):
    """Calls a function that may fail because the flow ends."""
    with pytest.raises(Exception, match=r"stopping|not running"):
        call(*given, **named)


# -- a worker's thread --------------------------------------------------------------------------


def test_a_thread_goes_on_with_a_stage_whose_calls_are_known_to_be_short():
    threads = []
    graph = chain(noting([], is_any_thread=False), noting(threads))
    with Running(graph, clock=FakeClock()) as flow, flow.session() as stream:
        for value in range(3):
            stream.send("input", value)
            assert stream.recv("output").data == value
    # The node's own thread makes the first call, because the cost of a call was still unknown.
    assert threads == ["modelflow/test/n1/0", "modelflow/test/n0/0", "modelflow/test/n0/0"]


def test_a_stage_whose_calls_take_long_keeps_its_own_thread():
    threads, clock = [], FakeClock()

    def process(ctx):
        threads.append(here())
        clock.advance(2 * CHEAP)
        ctx.emit(ctx.input())

    graph = chain(noting([], is_any_thread=False), alone(unit_of(process)))
    with Running(graph, clock=clock) as flow, flow.session() as stream:
        for value in range(3):
            stream.send("input", value)
            assert stream.recv("output").data == value
    assert threads == ["modelflow/test/n1/0"] * 3


def test_what_fails_on_another_stages_thread_names_its_own_node():
    def process(ctx):
        if ctx.input()[0].data == 2:
            raise ValueError("two")
        ctx.emit(ctx.input())

    graph = chain(noting([], is_any_thread=False), alone(unit_of(process)))
    with Running(graph, clock=FakeClock()) as flow, flow.session() as stream:
        for value in range(2):
            stream.send("input", value)
            stream.recv("output")
        stream.send("input", 2)
        with pytest.raises(FlowUnitError, match="node 'n1'"):
            stream.recv("output")
        counted = {name: stats.buffers for name, stats in flow.scheduler.statistics().items()}
    assert counted == {"n0": 3, "n1": 3}


def test_a_unit_that_hangs_on_another_stages_thread_is_the_one_that_is_named():
    release, clock = threading.Event(), FakeClock()

    def process(ctx):
        if ctx.input()[0].data == 2:
            inside.set()
            assert release.wait(60)
        ctx.emit(ctx.input())

    inside = threading.Event()
    graph = chain(noting([], is_any_thread=False), alone(unit_of(process)))
    flow = Running(graph, clock=clock, stop_timeout=0.5)
    flow.scheduler.start()
    stream = flow.session()
    for value in range(2):
        stream.send("input", value)
        stream.recv("output")
    stream.send("input", 2)
    assert inside.wait(60)
    with pytest.raises(ExceptionGroup) as caught:
        flow.scheduler.stop(drain=False)
    release.set()
    for _, thread in flow.scheduler._runner._running:
        thread.join(60)
    nodes = {error.node for error in caught.value.exceptions}
    assert nodes == {"n1"}
    assert "threading.py" in str(caught.value.exceptions[0])  # the position of the borrowed thread


def test_a_stage_whose_calls_others_make_is_held_up_by_a_full_queue_behind_it():
    called, arrived, clock = {"n0": 0, "n1": 0}, threading.Condition(), FakeClock()
    gate = threading.Event()
    gate.set()

    def counting(name):
        def process(ctx):
            with arrived:
                called[name] += 1
                arrived.notify_all()
            ctx.emit(ctx.input())

        return process

    def slow(ctx):
        assert gate.wait(60)
        ctx.emit(ctx.input())

    bound = unit_of(counting("n0"), hooks={"open": lambda _: None})
    specs = [
        (bound, {"threads": 1, "queue_size": 64}),
        (unit_of(counting("n1")), {"threads": 1, "queue_size": 64}),
        (unit_of(slow, hooks={"open": lambda _: None}), {"threads": 1, "queue_size": 1}),
    ]
    rows = range(3, 15)
    with Running(chain(*specs), clock=clock) as flow, flow.session() as stream:
        for value in range(3):  # now the calls are known to be short
            stream.send("input", value)
            assert stream.recv("output").data == value
        gate.clear()
        for value in rows:
            stream.send("input", value)
            with arrived:
                while called["n0"] <= value:
                    assert arrived.wait(60)
            clock.until_waiting(2)  # the first two stages
        with arrived:
            while called["n1"] - 3 < 2:
                assert arrived.wait(60)
        clock.until_waiting(2)
        taken = called["n1"] - 3
        gate.set()
        assert [stream.recv("output").data for _ in rows] == list(rows)
    assert taken == 2  # a row is in its call, and another fills the queue


def test_a_fault_of_the_runtime_on_a_thread_with_anothers_seat_ends_both(monkeypatch):
    def go_on(self):
        raise ZeroDivisionError("a fault")

    flow = Running(chain(noting([], is_any_thread=False), noting([])), clock=FakeClock())
    flow.scheduler.start()
    stream = flow.session()
    for value in range(2):
        stream.send("input", value)
        stream.recv("output")
    monkeypatch.setattr(Handoff, "go_on", go_on)
    stream.send("input", 2)
    with pytest.raises(StreamClosed):
        stream.recv("output")
    with pytest.raises(ExceptionGroup) as caught:
        flow.scheduler.stop()
    assert [str(error.__cause__) for error in caught.value.exceptions] == ["a fault"]


def test_a_unit_that_hangs_on_its_own_thread_after_others_have_called_it_is_found_there():
    inside, release = threading.Event(), threading.Event()

    def process(ctx):
        if ctx.input()[0].data == "hang":
            inside.set()
            assert release.wait(60)
        ctx.emit(ctx.input())

    flow = Running(chain(alone(unit_of(process))), clock=FakeClock())
    flow.scheduler.start()
    flow.infer(1, timeout=None)  # on this thread
    with flow.session() as other:
        other.send("input", "hang")
        assert inside.wait(60)
        (worker,) = flow.scheduler._workers
        assert "in wait" in worker.position()  # this thread is in `position`
        release.set()
        other.recv("output")
    flow.scheduler.stop()


# -- seats --------------------------------------------------------------------------------------


def resting(box, lendable=True, cost=0.0):
    """Returns a slot in the list of idle workers, without a thread."""
    stats = WorkerStats()
    stats.count(1, 0, cost)
    slot = box.slot(object(), stats)
    slot.is_lendable = lendable
    box._resting.append(slot)
    return slot


def box_of(**policy):
    made = InboxPolicy(**{"bounds": (32,), **policy})
    return Inbox("node", ("in",), made, Fifo(made, 1), FakeClock())


def row(at=0):
    stream = Stream(FakeSession(name="s", is_cancelled=False))
    return Segment(stream, range(at, at + 1), [[Buffer(at)]], False, False)


@pytest.mark.parametrize(
    ("home", "lendable", "cost", "is_lent"),
    [
        ([], True, 0.9 * CHEAP, True),
        ([], True, CHEAP, False),
        ([], False, 0.0, False),
        (["something waits at home"], True, 0.0, False),
        (None, True, 1.0, True),
        (None, False, 1.0, False),
    ],
)
def test_a_seat_is_lent_to_who_may_take_it(home, lendable, cost, is_lent):
    box = box_of()
    slot, handoff = resting(box, lendable, cost), Handoff(home, {"mine": None})
    box.append(0, [row()], handoff)
    assert (slot.borrower is handoff) is is_lent
    assert slot.is_called is not is_lent
    assert list(handoff.slots) == [slot] * is_lent


def test_a_caller_that_is_not_alone_any_more_takes_short_calls_only():
    known = {"mine": None}
    handoff, box = Handoff(None, known), box_of()
    known["another's"] = None
    dear, cheap = resting(box, cost=1.0), resting(box, cost=0.0)
    box.append(0, [row()], handoff)
    box.append(0, [row(1)], handoff)
    assert (dear.borrower, cheap.borrower) == (None, handoff)


def test_a_seat_that_is_given_back_rests_again_where_nothing_waits():
    box, handoff = box_of(), Handoff([])
    slot = resting(box)
    box.append(0, [row()], handoff)
    assert box.take_nowait().size == 1
    box.give_back(slot, handoff, False)
    assert (slot.borrower, slot.is_called) == (None, False)


def test_a_seat_that_is_given_back_wakes_its_worker_where_more_waits():
    box, handoff = box_of(), Handoff([])
    slot = resting(box)
    box.append(0, [row(), row(1)], handoff)
    assert box.take_nowait().size == 1
    box.give_back(slot, handoff, False)
    assert (slot.borrower, slot.is_called) == (None, True)


def test_who_has_a_seat_given_back_that_owes_a_wait_for_room_is_told_so_before_it_takes():
    box, handoff = box_of(), Handoff([])
    slot = resting(box)
    box.append(0, [row()], handoff)
    box.give_back(slot, handoff, True)
    assert slot.is_called
    assert box.take(slot).spans == []
    assert box.take(slot).size == 1


def test_a_seat_that_is_given_back_twice_stays_with_who_was_lent_it_meanwhile():
    box, first, second = box_of(), Handoff([]), Handoff([])
    slot = resting(box)
    box.append(0, [row()], first)
    assert box.take_nowait().size == 1
    box.give_back(slot, first, False)
    box.append(0, [row(1)], second)
    box.give_back(slot, first, True)
    assert slot.borrower is second


def test_of_those_who_rest_one_is_woken_for_each_append():
    box = box_of()
    slots = [resting(box) for _ in range(3)]
    box.append(0, [row()])
    box.append(0, [row(1)])
    assert [slot.is_called for slot in slots] == [False, True, True]


def test_a_seat_that_is_lent_is_neither_woken_nor_lent_again():
    box, handoff = box_of(), Handoff([])
    slot = resting(box)
    box.append(0, [row()], handoff)
    box.append(0, [row(1)], Handoff([]))
    box.append(0, [row(2)])
    assert (slot.borrower, slot.is_called) == (handoff, False)


def test_a_caller_with_a_long_call_before_it_takes_nothing_else():
    handoff, box, other = Handoff(None), box_of(), box_of()
    dear, cheap = resting(box, cost=1.0), resting(other, cost=0.0)
    box.append(0, [row()], handoff)
    other.append(0, [row()], handoff)
    assert (dear.borrower, cheap.borrower) == (handoff, None)


def test_a_caller_with_anything_before_it_takes_no_long_call():
    handoff, box, other = Handoff(None), box_of(), box_of()
    cheap, dear = resting(box, cost=0.0), resting(other, cost=1.0)
    box.append(0, [row()], handoff)
    other.append(0, [row()], handoff)
    assert (cheap.borrower, dear.borrower) == (handoff, None)


def test_who_takes_a_part_on_anothers_thread_has_the_next_worker_woken_for_the_rest():
    box, handoff = box_of(), Handoff([])
    other, lent = resting(box), resting(box)
    box.append(0, [row(), row(1)], handoff)
    assert box.take_nowait(lent).size == 1
    assert (lent.borrower, lent.is_called, other.is_called) == (handoff, False, True)


def test_seats_that_nobody_goes_on_with_are_given_back():
    box, handoff = box_of(), Handoff([])
    slot = resting(box)
    slot.worker = Standing(box, slot)
    box.append(0, [row()], handoff)
    handoff.give_back()
    assert (list(handoff.slots), slot.borrower, slot.is_called) == ([], None, True)
    assert slot.is_owing  # the progress of the call is unknown


def test_a_caller_that_has_gone_on_takes_no_long_call_beside_a_short_one():
    handoff, box, other = Handoff(None), box_of(), box_of()
    for _ in range(2):
        cheap, dear = resting(box, cost=0.0), resting(other, cost=1.0)
        cheap.worker = Standing(box, cheap)
        box.append(0, [row()], handoff)
        other.append(0, [row()], handoff)
        assert (cheap.borrower, dear.borrower) == (handoff, None)
        handoff.go_on()
        box._resting.clear()
        other._resting.clear()


class Standing:
    """A stand-in for a worker with only the members that a handoff uses."""

    def __init__(self, box, slot):
        self.box, self.slot = box, slot

    def stand_in(self, handoff):
        self.box.take_nowait(self.slot)
        self.rise(handoff, is_owing=False)

    def rise(self, handoff, *, is_owing):
        self.box.give_back(self.slot, handoff, is_owing)


# -- bursts -------------------------------------------------------------------------------------


def sizes(box, slot, rows):
    box.append(0, [row(at) for at in range(rows)])
    found = []
    while box.ready:
        found.append(box.take(slot).size)
    return found


@pytest.mark.parametrize(("rows", "expected"), [(4, [1, 1, 1, 1]), (8, [2, 2, 1, 1, 1, 1])])
def test_several_workers_share_a_burst_of_calls_that_take_long(rows, expected):
    box = box_of(batch_size=8, workers=4)
    assert sizes(box, box.slot(), rows) == expected


@pytest.mark.parametrize(
    ("policy", "cost"),
    [
        ({"workers": 1}, 1.0),
        ({"workers": 4}, 0.5 * CHEAP),
        ({"workers": 4, "is_measured": True}, 1.0),
        ({"workers": 4, "batch_timeout": 1.0}, 1.0),
    ],
)
def test_one_worker_takes_all_where_batches_are_wanted_or_calls_are_short(policy, cost):
    box, stats = box_of(batch_size=8, **policy), WorkerStats()
    stats.count(1, 0, cost)
    assert sizes(box, box.slot(None, stats), 8) == [8]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("policy", [{}, {"is_measured": True}, {"batch_timeout": 1.0}])
def test_rows_that_take_long_and_gain_nothing_from_one_another_go_one_by_one(workers, policy):
    box = box_of(batch_size=8, workers=workers, is_one_by_one=True, **policy)
    stats = WorkerStats()
    stats.count(4, 0, 5 * SLOW_ROW)
    assert sizes(box, box.slot(None, stats), 8) == ([8] if policy else [1] * 8)


def test_of_rows_that_take_long_the_last_call_tells():
    box, stats = box_of(batch_size=8, is_one_by_one=True), WorkerStats()
    slot, found = box.slot(None, stats), []
    for seconds in (SLOW_ROW / 2, 2 * SLOW_ROW, SLOW_ROW / 2):
        stats.count(1, 0, seconds)
        found.append(sizes(box, slot, 2))
    assert found == [[2], [1, 1], [2]]


def test_what_a_call_costs_rises_at_once_and_falls_slowly():
    stats, found = WorkerStats(), []
    for seconds in (1.0, 9.0, 1.0, 1.0):
        stats.count(1, 0, seconds)
        found.append(stats.cost)
    assert found == [1.0, 9.0, 8.0, 7.125]


def test_who_was_woken_while_it_filled_a_batch_is_woken_again_when_it_rests():
    box = box_of(batch_size=2, batch_timeout=3600.0)
    slot, taken = box.slot(), []
    worker = threading.Thread(target=lambda: taken.extend(iter(lambda: box.take(slot), None)))
    worker.start()
    for at in range(0, 4, 2):
        box._clock.until_waiting()
        box.append(0, [row(at)])
        box._clock.until_sleeping()
        box.append(0, [row(at + 1)])
    box._clock.until_waiting()
    box.close()
    worker.join(60)
    assert [batch.size for batch in taken] == [2, 2]
