"""Tests that a watcher is notified of the batches with rows of its session, and of no others."""

import threading

import pytest

from modelflow.device import Device
from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.runtime.workers.session_watch import CallTime, parts_of
from modelflow.stream_io.request import Request, submit
from modelflow.unit.kind import Collapse, Condition, Expand, Stream
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, unit_of
from tests.runtime.kinds.loop.test_looping import round_about

ONE = {"threads": 1, "batch_size": 4}


class Watching:
    """The notifications of a watcher, and whether the session has ended."""

    def __init__(self):
        self.parts = []
        self.is_over = threading.Event()

    def on_call(self, part):
        assert part.start <= part.end
        self.parts.append(part)

    def over(self):
        self.is_over.set()

    @property
    def told(self):
        """Returns the node, the rows and the error type of each notification."""
        return [
            (part.node, part.rows, part.error and type(part.error.__cause__).__name__)
            for part in self.parts
        ]


def ask(flow, *values, watching=None, **more):
    """Sends a request and waits for its answer."""
    ended = threading.Event()
    request = Request({"input": values}, lambda _: ended.set(), **more)
    if watching is not None:
        request.watch(watching)
    assert not submit(flow.scheduler, [request])
    assert ended.wait(60)
    return request


def watched(flow, *values, **more):
    watching = Watching()
    ask(flow, *values, watching=watching, **more)
    assert watching.is_over.is_set()
    return watching


def test_a_watcher_is_told_of_its_own_session_alone():
    with Running(chain((spec_of(), ONE))) as flow:
        ask(flow, 1)
        assert not flow.scheduler.is_watched
        watching = watched(flow, 1, 2, 3)
        ask(flow, 1)
    (part,) = watching.parts
    assert (part.node, part.unit, str(part.device)) == ("n0", "forward", "cpu:0")
    assert (part.rows, part.batch_size, part.error) == (3, 3, None)


def reciprocal(value):
    return 1 / value


@pytest.mark.parametrize("fuse", [{}, {"fuse": "a"}], ids=["apart", "fused"])
def test_each_node_is_told_of_with_the_rows_that_came_to_it(fuse):
    nodes = [(spec, {**ONE, **fuse}) for spec in (per_item(reciprocal), spec_of())]
    with Running(chain(*nodes)) as flow:
        assert watched(flow, 1, 0, 2).told == [("n0", 3, "ZeroDivisionError"), ("n1", 2, None)]
        assert watched(flow, 0).told == [("n0", 1, "ZeroDivisionError")]


def test_a_row_that_is_late_is_an_error_of_the_node_that_finds_it():
    with Running(chain((spec_of(), ONE))) as flow:
        watching = watched(flow, 1, deadline=-1.0)
    assert watching.told == [("n0", 1, DeadlineExceeded.__name__)]


def test_a_branch_that_a_row_does_not_take_is_not_told_of():
    def choose(ctx):
        (buffer,) = ctx.input()
        ctx.outputs["odd" if buffer.data % 2 else "even"].append(buffer)

    nodes = {
        "input": "input",
        "choose": unit_of(choose, kind=Condition(), outputs=("odd", "even")),
        "odd": spec_of(),
        "even": spec_of(),
        "output": "output",
    }
    edges = ["input -> choose", "choose:odd -> odd", "choose:even -> even"]
    edges += ["odd -> output", "even -> output"]
    with Running(graph_of(nodes, edges)) as flow:
        assert watched(flow, 1).told == [("choose", 1, None), ("odd", 1, None)]


def test_an_expanded_row_is_told_of_with_the_rows_that_it_became():
    def expand(ctx):
        (buffer,) = ctx.input()
        ctx.outputs["out"] = [*range(buffer.data)]

    def total(ctx):
        ctx.emit([sum(buffer.data for buffer in ctx.input())])

    nodes = {
        "input": "input",
        "expand": unit_of(expand, kind=Expand()),
        "each": (spec_of(), {"threads": 1, "batch_size": 8}),
        "total": unit_of(total, kind=Collapse()),
        "output": "output",
    }
    edges = ["input -> expand", "expand -> each", "each -> total", "total -> output"]
    with Running(graph_of(nodes, edges)) as flow:
        watching = watched(flow, 4)
    rows = {}
    for node, count, error in watching.told:
        rows[node] = rows.get(node, 0) + count
        assert error is None
    assert rows == {"expand": 1, "each": 4, "total": 1}


def test_a_stream_unit_is_told_of_with_its_events_and_its_error():
    def count(ctx):
        left = ctx.event if ctx.event is not None else ctx.input()[0].data
        if left < 0:
            raise ValueError("below nothing")
        ctx.emit([left])
        if left:
            ctx.send_event(left - 1)

    nodes = {"input": "input", "count": unit_of(count, kind=Stream()), "output": "output"}
    with Running(graph_of(nodes, ["input -> count", "count -> output"])) as flow:
        good, bad = watched(flow, 2), watched(flow, -1)
    assert sum(rows for _, rows, _ in good.told) == 1
    assert len(good.parts) >= 3
    assert ("count", 1, "ValueError") in bad.told


def test_a_row_that_goes_round_is_told_of_each_time():
    with Running(round_about(per_item(lambda x: x + 3))) as flow:
        good, bad = watched(flow, 5), watched(flow, "bad")
    assert sorted(good.told) == [*[("body", 1, None)] * 2, *[("loop", 1, None)] * 3]
    assert bad.told == [("loop", 1, "ValueError")]


def test_a_session_that_is_cancelled_is_over_and_still_told_of_what_was_under_way():
    entered, go, told = threading.Event(), threading.Event(), threading.Event()

    class Late(Watching):
        def on_call(self, part):
            super().on_call(part)
            told.set()

    def wait(value):
        entered.set()
        go.wait()
        return value

    watching = Late()
    with Running(chain((per_item(wait), ONE))) as flow:
        request = Request({"input": [1]}, lambda _: None)
        request.watch(watching)
        submit(flow.scheduler, [request])
        assert entered.wait(60)
        request.cancel()
        assert watching.is_over.is_set()
        assert not watching.parts
        go.set()
        assert told.wait(60)
    assert watching.told == [("n0", 1, None)]


def test_what_came_in_error_is_of_no_node_behind_it():
    laps = [CallTime(_Plan("a"), 0.0, 1.0), CallTime(_Plan("b"), 1.0, 2.0)]
    early, here = (FlowUnitError("no", node=node) for node in ("z", "b"))
    device = Device("cpu", 0)
    parts = parts_of([early, here, None], laps, 5, device, "a/0")
    assert [(part.node, part.rows, part.error) for part in parts] == [
        ("a", 2, None),
        ("b", 2, here),
    ]
    assert parts_of([early], laps, 5, device, "a/0") == []


class _Plan:
    def __init__(self, node):
        self.node = node
        self.spec = spec_of(name=node)
