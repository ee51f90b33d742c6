"""Tests of the loader of flows, with foreign code that does not return."""

import queue
import threading

import pytest

import modelflow
from modelflow.errors import Cancelled, ConfigError, FlowFailed
from modelflow.serve.repository.loader import Loader


class Held:
    """Work that does not return before the test is over."""

    def __init__(self):
        self.is_over, self.begun = threading.Event(), threading.Semaphore(0)

    def wait(self):
        self.begun.release()
        self.is_over.wait()


@pytest.fixture
def held():
    found = Held()
    yield found
    found.is_over.set()


@pytest.fixture
def loader():
    found = Loader(look_seconds=0.05)
    yield found
    found.interrupt()


def outcome(loader, work, **more):
    """Returns the outcome that the loader reports for some work."""
    found = queue.SimpleQueue()
    assert loader.run(work, found.put, **more)
    return found.get()


def test_loads_that_hang_hold_up_neither_loads_nor_unloads(loader, held, monkeypatch):
    monkeypatch.setattr("modelflow.serve.repository.work._SLOW", 0.05)
    for _ in range(3):
        loader.run(held.wait, print, weight=1)
    for _ in range(3):
        held.begun.acquire()
    assert outcome(loader, lambda: "loaded", weight=1) == "loaded"
    assert outcome(loader, lambda: "unloaded") == "unloaded"


def test_a_few_load_at_a_time_in_the_order_in_which_they_came(loader, held):
    order, done = [], threading.Semaphore(0)
    for _ in range(2):
        loader.run(held.wait, print, weight=1)
    for number in range(4):
        loader.run(
            lambda number=number: order.append(number),
            lambda _: done.release(),
            weight=1,
        )
    for _ in range(2):
        held.begun.acquire()
    assert order == []
    held.is_over.set()
    for _ in range(4):
        done.acquire()
    assert sorted(order) == [0, 1, 2, 3]
    assert order[0] in (0, 1)


def test_what_waits_for_its_turn_is_dropped_at_the_end(loader, held):
    told = []
    for _ in range(2):
        loader.run(held.wait, told.append, weight=1)
    for _ in range(2):
        held.begun.acquire()
    loader.run(lambda: "too late", told.append, weight=1)
    loader.interrupt()
    held.is_over.set()
    loader.stop()
    assert told == [None, None]
    assert loader.run(lambda: "behind the end", told.append) is None


def test_a_disk_that_does_not_answer_is_told_and_the_next_look_begins(loader, held):
    found, told = [], threading.Semaphore(0)

    def note(result):
        found.append(result)
        told.release()

    loader.look(held.wait, note)
    loader.look(lambda: "seen", note)
    for _ in range(2):
        told.acquire()
    assert isinstance(found[0], ConfigError)
    assert "looking at the disk has not ended in 0.05 s; it is at " in str(found[0])
    assert found[1] == "seen"


def test_the_end_waits_for_nothing_that_hangs_and_names_it(held):
    @modelflow.flowunit(name="hangs")
    def hangs(_):
        held.wait()

    graph = "digraph g { input [type=input]\n hangs\n output [type=output]\n"
    graph += "input -> hangs -> output }"
    loader = Loader()
    flow = loader.load(lambda: modelflow.Flow(graph, units=[hangs]))
    flow.create_stream_io().send("input", 1)
    held.begun.acquire()
    loader.run(held.wait, print)
    held.begun.acquire()
    for _ in range(2):  # the second run waits for nothing, and reports the same
        with pytest.raises(FlowFailed) as failure:
            loader.stop()
        hung, load = map(str, failure.value.exceptions)
        assert "node 'hangs'" in hung
        assert "did not return within 1.2 s of being told to stop" in hung
        assert "a model has not ended, and is left; it is at " in load


def held_flow(held):
    """Returns a flow whose unit does not open before the test is over."""

    class Unit(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "opens",
            {"cpu": lambda: Unit()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
        )

        def open(self, config):
            held.wait()

    graph = "digraph g { input [type=input]\n opens\n output [type=output]\n"
    return modelflow.Flow(graph + "input -> opens -> output }", units=[Unit])


def test_a_load_that_was_given_up_is_cancelled_and_its_flow_does_not_run(held, loader):
    told = queue.SimpleQueue()
    work = loader.run(lambda: loader.load(lambda: held_flow(held)), told.put, weight=1)
    held.begun.acquire()
    assert "node 'opens' has been in open for " in loader.give_up(work, ("m", 1))
    assert isinstance(told.get(), Cancelled)


def test_what_nobody_wants_any_more_is_not_even_begun(held, loader):
    made, told = [], queue.SimpleQueue()

    def load():
        held.wait()
        return loader.load(lambda: made.append("begun"))

    work = loader.run(load, told.put, weight=1)
    held.begun.acquire()
    loader.cancel(work)
    held.is_over.set()
    assert isinstance(told.get(), Cancelled)
    assert made == []
    assert outcome(loader, lambda: "the next load", weight=1) == "the next load"


def test_loads_that_hang_are_listed_by_version_until_they_come_back(held, loader):
    work = loader.run(lambda: loader.load(lambda: held_flow(held)), print, weight=1)
    held.begun.acquire()
    loader.give_up(work, ("m", 1))
    work.thread.join()  # the loader's thread is free, but the unit's thread is not
    (where,) = loader.list_hanging(("m", 1))
    assert where.startswith("node 'opens' has been in open for ")
    assert loader.list_hanging(("m", 2)) == loader.list_hanging(("other", 1)) == []
    held.is_over.set()
    while loader.list_hanging(("m", 1)):
        pass
    assert loader._given_up == {}


def test_what_hangs_before_there_is_a_flow_is_listed_with_its_place(held, loader):
    work = loader.run(held.wait, print, weight=1)
    held.begun.acquire()
    loader.give_up(work, ("m", 1))
    (where,) = loader.list_hanging(("m", 1))
    assert where.startswith("it is at ")
    held.is_over.set()
    work.thread.join()
    assert loader.list_hanging(("m", 1)) == []
