"""What runs in the process of a unit, run here over a channel of its own."""

import pickle
import threading

import numpy as np
import pytest

from modelflow.device import Device
from modelflow.ipc.channel import Channel, open_channel
from modelflow.runtime.executors import child
from modelflow.runtime.executors.child import Item, Job
from modelflow.unit.unit import FlowUnit


class Unit(FlowUnit):
    """Gives what it gets; raises what it is told to."""

    def open(self, config):
        if config == "fail":
            raise OSError("no model")

    def process(self, ctx):
        for buffer in ctx.input():
            if isinstance(buffer.data, str):
                raise {"exit": SystemExit, "panic": Panic}.get(buffer.data, ValueError)("no good")
            if buffer.data is None:
                return 5
            ctx.emit([buffer])
        return None


class Panic(BaseException):
    """As a Rust extension raises it."""


@pytest.fixture
def asked(monkeypatch):
    """Starts the child's work on a thread; returns what asks it, and ends it."""
    monkeypatch.setattr(child.spawn, "prepare", lambda preparation: None)
    ours, theirs = open_channel()
    channel, other = Channel(ours), Channel(theirs)
    thread = threading.Thread(target=child.run, args=(other,), name="modelflow/test/child")
    thread.start()

    def ask(message):
        channel.send(message)
        return channel.receive(60)

    yield ask
    channel.close()
    thread.join()
    other.close()


def job(config=None, in_place=frozenset()):
    return {}, pickle.dumps(Job(Unit, config, Device("cpu", 0), 4, in_place, ("out",)))


def test_a_batch_comes_back_with_its_meta(asked):
    assert asked(job()) == (True, {})
    is_good, answer = asked({"in": [Item(1, {"k": 1}), Item(2, None)]})
    assert is_good
    assert [(item.data, item.meta or {}) for item in answer["out"]] == [(1, {"k": 1}), (2, {})]
    assert asked(None) == (True, {})


@pytest.mark.parametrize(("text", "kind"), [("exit", RuntimeError), ("bad", ValueError)])
def test_whatever_a_call_raises_is_told_and_the_next_one_is_answered(asked, text, kind):
    asked(job())
    is_good, error = asked({"in": [Item(text, None)]})
    assert not is_good
    assert type(error) is kind
    assert "no good" in str(error)
    assert "In the process of the unit" in error.__notes__[0]
    assert asked({"in": [Item(1, None)]})[0]
    asked(None)


def test_a_call_that_returns_something_is_told_so(asked):
    asked(job())
    is_good, error = asked({"in": [Item(None, None)]})
    assert (is_good, type(error)) == (False, TypeError)
    asked(None)


def test_a_unit_that_does_not_open_is_told_and_that_is_the_end(asked):
    is_good, error = asked(job("fail"))
    assert (is_good, type(error), str(error)) == (False, OSError, "no model")


def test_arrays_are_read_only_but_those_that_the_unit_writes_to():
    for is_writable in (False, True):
        item = Item(np.zeros(2), None)
        assert child._buffer(item, is_writable=is_writable).data.flags.writeable is is_writable
    assert child._buffer(Item("text", {"k": 1}), is_writable=False).meta == {"k": 1}
