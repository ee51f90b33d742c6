"""Tests of the child side of a process unit, run in this process over its own channel."""

import contextlib
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from modelflow.device import Device
from modelflow.errors import BadRequest
from modelflow.ipc import process as processes
from modelflow.ipc.memory_channel import MemoryChannel, open_channel
from modelflow.ipc.shared_memory import ChannelDescriptors
from modelflow.runtime.stages.executors import child
from modelflow.runtime.stages.executors.child import Item, Job
from modelflow.unit.unit import FlowUnit


class Unit(FlowUnit):
    """Forwards its input; raises the exceptions that its input asks for."""

    def open(self, config):
        self.config = config
        if config == "fail":
            raise OSError("no model")

    def close(self):
        if self.config == "fail in close":
            raise OSError("busy")
        if isinstance(self.config, Path):
            self.config.write_text("closed")

    def process(self, ctx):
        told = (self.device, self.batch_size, self.config)
        values = {"all": [told], "odd": [lambda: None], "mixed": [ValueError("a value"), 3]}
        for buffer in ctx.input():
            if isinstance(buffer.data, np.ndarray):
                buffer.data[:] = 7
            elif buffer.data in values:
                ctx.emit(values[buffer.data])
                continue
            elif isinstance(buffer.data, str):
                raise RAISED.get(buffer.data, ValueError)("no good")
            if buffer.data is None:
                return 5
            ctx.emit([buffer])
        return None


class Panic(BaseException):
    """An exception of the kind that Rust extensions raise."""


class TurningError(ValueError):
    """An error that becomes another object on the other side."""

    def __reduce__(self):
        return ValueError, ("of another class",)


RAISED = {"exit": SystemExit, "panic": Panic, "turning": TurningError}


@pytest.fixture
def asked(monkeypatch):
    """Starts the child's loop on a thread; yields a function that sends requests."""
    monkeypatch.setattr(processes.spawn, "prepare", lambda preparation: None)
    channel, theirs = open_channel()
    other = MemoryChannel(theirs)

    def work():
        with contextlib.suppress(EOFError):
            child.run(other)

    thread = threading.Thread(target=work, name="modelflow/test/child")
    thread.start()

    def ask(message):
        channel.send(message)
        return channel.receive(60)

    yield ask
    channel.close()
    thread.join()
    other.close()


@pytest.fixture
def begun(asked):
    """Starts the same with an open unit."""
    assert asked(job()) == (True, {})
    return asked


def given(*values):
    return {"in": [Item(value, None) for value in values]}


def job(config=None, in_place=frozenset()):
    return {}, pickle.dumps(Job(Unit, config, Device("cpu", 0), 4, in_place, ("out",)))


def test_a_batch_comes_back_with_its_meta(asked):
    assert asked(job()) == (True, {})
    is_good, answer = asked({"in": [Item(1, {"k": 1}), Item(2, None)]})
    assert is_good
    assert [(item.data, item.meta or {}) for item in answer.values["out"]] == [
        (1, {"k": 1}),
        (2, {}),
    ]
    assert asked(None) == (True, {})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("exit", RuntimeError),
        ("bad", ValueError),
        ("panic", RuntimeError),
        ("turning", ValueError),
    ],
)
def test_whatever_a_call_raises_is_told_and_the_next_one_is_answered(asked, text, kind):
    asked(job())
    is_good, error = asked({"in": [Item(text, None)]})
    assert not is_good
    assert type(error) is kind
    assert "no good" in str(error)
    (note,) = error.__notes__
    assert note.startswith(
        "In the process of the unit:\nTraceback (most recent call last):\n  File"
    )
    assert "no good" in note
    assert asked({"in": [Item(1, None)]})[0]
    asked(None)


def test_a_call_that_returns_something_is_told_so(asked):
    asked(job())
    is_good, error = asked({"in": [Item(None, None)]})
    assert (is_good, type(error)) == (False, TypeError)
    assert "process() returned int" in str(error)
    asked(None)


def test_a_unit_that_does_not_open_is_told_and_that_is_the_end(asked):
    is_good, error = asked(job("fail"))
    assert (is_good, type(error), str(error)) == (False, OSError, "no model")


def test_arrays_are_read_only_but_those_that_the_unit_writes_to():
    for is_writable in (False, True):
        item = Item(np.zeros(2), None)
        assert child._buffer(item, is_writable=is_writable).data.flags.writeable is is_writable
    assert child._buffer(Item("text", {"k": 1}), is_writable=False).meta == {"k": 1}


def test_a_unit_knows_its_device_its_batch_size_and_its_options(asked):
    asked(job("options"))
    is_good, answer = asked(given("all"))
    assert is_good
    assert answer.values == {"out": [(Device("cpu", 0), 4, "options")]}
    asked(None)


def test_values_of_every_sort_are_told(begun):
    is_good, answer = begun(given("mixed"))
    assert is_good
    error, value = answer.values["out"]
    assert (type(error), str(error), value) == (ValueError, "a value", 3)
    assert "In the process of the unit:\n" in error.__notes__[0]
    begun(None)


def test_what_cannot_be_told_is_an_error_and_the_next_call_is_answered(begun):
    is_good, error = begun(given("odd"))
    assert not is_good
    assert "pickle" in str(error)
    assert begun(given(1))[0]
    begun(None)


@pytest.mark.parametrize("is_in_place", [True, False])
def test_a_unit_may_write_to_what_it_said_that_it_writes_to(asked, is_in_place):
    asked(job(in_place=frozenset({"in"} if is_in_place else {"other"})))
    is_good, answer = asked(given(np.zeros(2)))
    assert is_good == is_in_place
    assert "read-only" in str(answer) or answer.values["out"][0].data.tolist() == [7, 7]
    asked(None)


def test_a_unit_that_does_not_close_is_told(asked):
    asked(job("fail in close"))
    is_good, error = asked(None)
    assert (is_good, type(error), str(error)) == (False, OSError, "busy")


class Gone:
    """A channel whose other side closes after some messages."""

    def __init__(self, *messages):
        self._messages = list(messages)
        self.sent = []

    def receive(self):
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)

    def send(self, message):
        self.sent.append(message)


def test_a_unit_is_closed_also_when_the_flow_is_gone(monkeypatch, tmp_path):
    monkeypatch.setattr(processes.spawn, "prepare", lambda preparation: None)
    channel = Gone(job(tmp_path / "end"))
    with pytest.raises(EOFError):
        child.run(channel)
    assert (tmp_path / "end").read_text() == "closed"
    assert channel.sent == [(True, {})]


def test_only_while_the_main_module_is_imported_a_flow_must_not_start(monkeypatch):
    seen = []
    monkeypatch.setattr(
        processes.spawn, "prepare", lambda given: seen.append((given, processes.Preparation.is_so))
    )
    channel = Gone(({"name": "main"}, job()[1]), None)
    child.run(channel)
    assert seen == [({"name": "main"}, True)]
    assert processes.Preparation.is_so is False
    assert channel.sent == [(True, {})] * 2


@pytest.mark.parametrize("error", [EOFError, BrokenPipeError])
def test_the_process_has_its_ends_and_ends_with_the_channel(error, monkeypatch):
    done = []

    def run(channel):
        done.append(channel)
        raise error

    monkeypatch.setattr(processes, "end_with", done.append)
    monkeypatch.setattr(processes, "MemoryChannel", lambda ends: ends)
    monkeypatch.setattr(child, "run", run)
    child.main(["3", "4", "5", "77"])
    assert done == [77, ChannelDescriptors(3, 4, 5)]


class Refusal(BadRequest):
    """An exception that a text alone cannot recreate, and which therefore cannot be copied."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")


def test_a_refusal_of_a_class_that_cannot_go_to_another_process_stays_one():
    copied = child._portable(Refusal("a.jpg", "no image"))
    assert type(copied) is BadRequest
    assert "a.jpg: no image" in str(copied)
