"""Tests of changes to a running flow: no row is lost, and the order is kept."""

import gc
import itertools
import threading
import weakref

import pytest

import modelflow
from modelflow.errors import ConfigError, FlowFailed, PlanError, StreamClosed

GRAPH = """digraph changed { input [type=input] output [type=output]
    before [flowunit=through] work [flowunit=through, threads=1, batch_size=4]
    after [flowunit=through]
    input -> before -> work -> after -> output }"""
ONE = "digraph one {{ input [type=input] {unit} o [type=output] input -> {unit} -> o }}"


@modelflow.flowunit(batched=True)
def through(values):
    return values


CHANGES = (
    {"work.threads": 3},
    {"work.batch_size": 16},
    {"work.batch_timeout_ms": 1},
    {"work.queue_size": 2, "before.threads": 2},
    {"work.threads": 1},
    {"work.batch_timeout_ms": 0},
    {"work.batch_size": 1, "after.threads": 4},
    {"work.queue_size": 64, "work.threads": 5},
    {"before.threads": 1, "after.threads": 1},
)


def test_rows_keep_their_order_and_counters_their_sums_while_everything_changes():
    over, wrong, sent = threading.Event(), [], []
    moved = threading.Condition()

    def use(flow):
        for start in itertools.count(0, 30):
            if over.is_set():
                return
            rows = list(range(start, start + 30))
            (results,) = flow.create_stream_io().exchange({"input": rows}).values()
            if [buffer.data for buffer in results] != rows:
                wrong.append(results)
            with moved:
                sent.append(len(rows))
                moved.notify()

    with modelflow.Flow(GRAPH, units=[through]) as flow:
        users = [threading.Thread(target=use, args=(flow,)) for _ in range(4)]
        for user in users:
            user.start()
        try:
            for change in CHANGES * 4:
                flow.reconfigure(change)
                with moved:
                    known = len(sent)
                    while len(sent) < known + 2:
                        assert moved.wait(60)
        finally:
            over.set()
            for user in users:
                user.join()
        names = [t.name for t in threading.enumerate() if "/changed/work/" in t.name]
        stats = flow.stats()
    assert not wrong
    assert sorted(names) == [f"modelflow/changed/work/{number}" for number in range(5)]
    for node in stats.values():
        assert node.buffers == sum(sent)
        assert sum(node.closed.values()) == node.batches
    assert (stats["work"].threads, stats["work"].batch_size, stats["work"].capacity) == (5, 1, 64)
    assert flow.scheduler.plan.stages["work"].threads == 5


class Picky(modelflow.FlowUnit):
    """Opens once."""

    opened = 0

    def open(self, config):
        type(self).opened += 1
        if type(self).opened > 1:
            message = "no second one"
            raise RuntimeError(message)

    def process(self, ctx):
        ctx.emit([buffer.data for buffer in ctx.inputs["in"]])


def test_a_unit_that_does_not_open_leaves_the_flow_as_it_was():
    Picky.opened = 0
    spec = modelflow.FlowUnitSpec(
        "picky",
        {"cpu": Picky},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        threads=1,
    )
    with modelflow.Flow(ONE.format(unit="picky"), units=[spec]) as flow:
        with pytest.raises(FlowFailed, match="node 'picky' goes on with 1 threads") as caught:
            flow.reconfigure({"picky.threads": 3})
        assert "no second one" in str(caught.value.exceptions[0])
        assert flow.infer(7).data == 7
        assert (flow.scheduler.plan.stages["picky"].threads, flow.stats()["picky"].threads) == (
            1,
            1,
        )
        assert sum("/one/picky/" in thread.name for thread in threading.enumerate()) == 1


def test_a_change_that_cannot_be_made_makes_none_of_them():
    with modelflow.Flow(GRAPH, units=[through]) as flow:
        with pytest.raises(ConfigError):
            flow.reconfigure({"work.batch_size": 2, "work.threads": 0})
        assert flow.scheduler.plan.stages["work"].batch_size == 4


def test_a_flow_that_does_not_run_or_has_no_threads_says_so():
    flow = modelflow.Flow(GRAPH, units=[through])
    with pytest.raises(StreamClosed):
        flow.reconfigure({"work.batch_size": 2})
    with modelflow.Flow(GRAPH, units=[through], threads=0) as inline:
        inline.reconfigure({"work.batch_size": 2})
        assert inline.infer(3).data == 3
        with pytest.raises(PlanError, match=r"work\.threads: this flow runs on its caller's"):
            inline.reconfigure({"work.threads": 2})
    with pytest.raises(StreamClosed):
        inline.reconfigure({"work.batch_size": 2})


def test_threads_of_other_than_normal_units_stay_as_they_are():
    @modelflow.flowunit(kind="expand")
    def parts(value):
        yield from (value, value)

    with (
        modelflow.Flow(ONE.format(unit="parts"), units=[parts]) as flow,
        pytest.raises(PlanError, match=r"parts\.threads: the expand unit's cannot be"),
    ):
        flow.reconfigure({"parts.threads": 5})


def test_a_unit_cannot_change_the_flow_that_waits_for_it():
    caught = []

    @modelflow.flowunit
    def meddle(value):
        try:
            flow.reconfigure({"meddle.threads": 2})
        except RuntimeError as error:
            caught.append(str(error))
        return value

    with modelflow.Flow(ONE.format(unit="meddle"), units=[meddle]) as flow:
        flow.infer(1)
    assert "reconfigure() was called by node 'meddle'" in caught[0]


def test_a_stop_ends_a_change_that_waits_for_a_call():
    entered, go_on, caught = threading.Event(), threading.Event(), []

    @modelflow.flowunit(threads=1)
    def hold(value):
        entered.set()
        go_on.wait(60)
        return value

    def change():
        try:
            flow.reconfigure({"hold.threads": 2})
        except StreamClosed as error:
            caught.append(error)

    flow = modelflow.Flow(ONE.format(unit="hold"), units=[hold], stop_timeout=30.0).start()
    stream = flow.create_stream_io()
    stream.send("input", 1)
    entered.wait(60)
    changer = threading.Thread(target=change)
    changer.start()
    flow.stop(drain=False, wait=False)
    changer.join()
    go_on.set()
    flow.stop(drain=False)
    assert len(caught) == 1


def test_a_later_unit_that_does_not_open_leaves_the_flow_as_it_was_too():
    lock, made = threading.Lock(), []

    class Third(modelflow.FlowUnit):
        def open(self, config):
            with lock:
                made.append(self)
                if len(made) >= 3:
                    message = "no third one"
                    raise RuntimeError(message)

        def process(self, ctx):
            ctx.emit([buffer.data for buffer in ctx.inputs["in"]])

    spec = modelflow.FlowUnitSpec(
        "third",
        {"cpu": Third},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        threads=1,
    )
    with modelflow.Flow(ONE.format(unit="third"), units=[spec]) as flow:
        with pytest.raises(FlowFailed, match="goes on with 1 threads"):
            flow.reconfigure({"third.threads": 3})
        assert flow.infer(7).data == 7
        assert (flow.scheduler.plan.stages["third"].threads, flow.stats()["third"].threads) == (
            1,
            1,
        )
        assert sum("/one/third/" in thread.name for thread in threading.enumerate()) == 1


def test_two_who_change_at_once_undo_nothing_of_each_other():
    with modelflow.Flow(GRAPH, units=[through]) as flow:
        for count in (3, 1) * 5:
            both = threading.Barrier(2)

            def change(node, both=both, count=count):
                both.wait(60)
                flow.reconfigure({f"{node}.threads": count})

            others = [threading.Thread(target=change, args=(n,)) for n in ("before", "after")]
            for other in others:
                other.start()
            for other in others:
                other.join()
            assert [flow.scheduler.plan.stages[n].threads for n in ("before", "after")] == [
                count,
                count,
            ]


def test_what_was_changed_before_another_failed_stays_and_is_in_the_plan():
    Picky.opened = 0
    spec = modelflow.FlowUnitSpec(
        "picky",
        {"cpu": Picky},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        threads=1,
    )
    graph = "digraph g { input [type=input] a [flowunit=through, threads=1] picky o [type=output] "
    graph += "input -> a -> picky -> o }"
    with modelflow.Flow(graph, units=[spec, through]) as flow:
        with pytest.raises(FlowFailed):
            flow.reconfigure({"a.threads": 3, "picky.threads": 2})
        assert [flow.scheduler.plan.stages[n].threads for n in ("a", "picky")] == [3, 1]
        flow.reconfigure({"picky.batch_size": 2})
        assert flow.scheduler.plan.stages["a"].threads == flow.stats()["a"].threads == 3


def test_units_of_threads_that_have_left_are_freed():
    alive = weakref.WeakSet()

    class Kept(modelflow.FlowUnit):
        def open(self, config):
            alive.add(self)

        def process(self, ctx):
            ctx.emit([buffer.data for buffer in ctx.inputs["in"]])

    spec = modelflow.FlowUnitSpec(
        "kept", {"cpu": Kept}, inputs=(modelflow.Port("in"),), outputs=(modelflow.Port("out"),)
    )
    with modelflow.Flow(ONE.format(unit="kept"), units=[spec]) as flow:
        for count in (4, 1) * 3:
            flow.reconfigure({"kept.threads": count})
        gc.collect()
        assert len(alive) == 1


def test_a_source_is_not_waited_for():
    over = threading.Event()

    @modelflow.flowunit
    def numbers():
        over.wait(60)
        yield 1

    graph = "digraph g { numbers through numbers -> through }"
    with modelflow.Flow(graph, units=[numbers, through]) as flow:
        flow.reconfigure({"numbers.batch_timeout_ms": 5})
        over.set()


class Interrupted(modelflow.FlowUnit):
    """A unit that opens once; later calls of `open` wait until an interrupt."""

    count = 0
    opening = threading.Event()

    def open(self, config):
        type(self).count += 1
        self._over = threading.Event()
        if type(self).count > 1:
            self.opening.set()
            self._over.wait(60)
            message = "interrupted"
            raise RuntimeError(message)

    def interrupt(self):
        self._over.set()

    def process(self, ctx):
        ctx.emit([buffer.data for buffer in ctx.inputs["in"]])


def test_a_stop_while_a_new_thread_opens_its_unit_ends_the_change():
    Interrupted.count, caught = 0, []
    Interrupted.opening.clear()
    spec = modelflow.FlowUnitSpec(
        "interrupted",
        {"cpu": Interrupted},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        threads=1,
    )

    def change():
        try:
            flow.reconfigure({"interrupted.threads": 3})
        except StreamClosed as error:
            caught.append(str(error))

    flow = modelflow.Flow(ONE.format(unit="interrupted"), units=[spec]).start()
    changer = threading.Thread(target=change)
    changer.start()
    Interrupted.opening.wait(60)
    flow.stop(drain=False)
    changer.join(60)
    assert not changer.is_alive()
    assert len(caught) == 1
    assert not [t for t in threading.enumerate() if "/one/interrupted/" in t.name]


def test_who_is_recorded_goes_on_being_recorded(tmp_path):
    with modelflow.Flow(GRAPH, units=[through]) as flow:
        with flow.record(tmp_path / "t.json", every=1):
            flow.reconfigure({"work.threads": 3})
            for value in range(3):
                flow.infer(value)
        text = (tmp_path / "t.json").read_text()
    assert '"work/2"' in text
