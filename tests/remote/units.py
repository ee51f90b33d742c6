"""Units that remote processes import: they die, hang, and record their input."""

import os
import select
import signal
import time

import numpy as np

from modelflow import FlowUnit, FlowUnitSpec, Option, Port, Stream, flowunit
from modelflow.errors import BadRequest, EndFlow
from modelflow.unit import kind as kinds


@flowunit
def risky(value, *, notes: str = ""):
    """Doubles a number; -1 kills the process, -2 stops the process, -3 is refused.

    -4 gives a function, and -5 takes 3 s.

    Args:
        value: The number.
        notes: A file to which each number is appended, a line each.
    """
    if notes:
        with open(notes, "a", encoding="utf-8") as file:
            file.write(f"{value}\n")
    if value == -1:
        os.kill(os.getpid(), signal.SIGKILL)
    if value == -2:
        os.kill(os.getpid(), signal.SIGSTOP)
        select.select([], [], [])  # SIGSTOP may stop another thread first
    if value == -3:
        raise ValueError(f"refuses {value}")
    if value == -5:
        time.sleep(3.0)
    return (lambda: 0) if value == -4 else 2 * value


class Closing(FlowUnit):
    """Forwards its input, and writes to a file when the unit is closed."""

    def open(self, config):
        self._notes = config.notes

    def process(self, ctx):
        ctx.emit(list(ctx.input()))

    def close(self):
        with open(self._notes, "a", encoding="utf-8") as file:
            file.write("1\n")


closing = FlowUnitSpec(
    "closing",
    {"cpu": Closing},
    (Port("input"),),
    (Port("output"),),
    options=(Option("notes", str, ""),),
    is_shared=True,
)


class Unsendable:
    """An object that raises during pickling, as a wrapper of a native object may."""

    def __reduce__(self):
        raise ValueError("holds a pointer")


class Unreadable:
    """An object that raises during unpickling, for example the error of a closed channel."""

    def __init__(self, error=LookupError):
        self.error = error

    def __reduce__(self):
        return _unread, (self.error,)


def _unread(error):
    raise error("is of another machine")


class _View(np.ndarray):
    """Arrays of a class that cannot be sent."""

    def __reduce_ex__(self, protocol):
        raise ValueError("is of a device")


@flowunit
def odd(value):
    """Returns values that cannot be sent or read, or ends the flow; forwards other values."""
    if value == "end":
        raise EndFlow("enough")
    if value == "group":
        raise ExceptionGroup("two", [ValueError("one"), KeyError("other")])
    if isinstance(value, str):
        results = {
            "unsendable": Unsendable(),
            "unreadable": Unreadable(),
            "broken": Unreadable(BrokenPipeError),
            "leaving": Unreadable(SystemExit),
            "view": np.zeros(3).view(_View),
        }
        return results.get(value, value)
    return value


@flowunit
def tail(value):
    """Returns a view of all bytes but the first, without a copy."""
    return memoryview(value)[1:]


@flowunit
def slow(value):
    """Sleeps for each row."""
    time.sleep(0.2)
    return value


@flowunit
def picky(value):
    """Rejects every input."""
    raise BadRequest(f"got {value!r}; expected something else")


class Count(FlowUnit):
    """Returns the running sum of its inputs."""

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.state["sum"] = ctx.state.get("sum", 0) + buffer.data
            ctx.emit([ctx.state["sum"]])


count = FlowUnitSpec(
    "count",
    {"cpu": Count},
    (Port("input"),),
    (Port("output"),),
    kind=Stream(kinds.Count.SAME),
)
