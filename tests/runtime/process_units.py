"""Units that another process can import."""

import asyncio
import os
import time
from dataclasses import dataclass

import numpy as np

from modelflow import Buffer, Context, FlowUnit, FlowUnitSpec, Port, flowunit, option
from modelflow.image import Box


@flowunit
def plus_one(array, *, by: int = 1):
    """Adds ``by`` to the values."""
    return array + by


async def _later(value):
    return value


@flowunit
def awaits_nothing(value):
    """Returns a coroutine."""
    return _later(value)


@flowunit
def process_id(value):
    """Returns the id of the process in which the unit runs."""
    return os.getpid()


@flowunit
def picky(value):
    """Refuses some values, and ends its process for others."""
    if value == "bad":
        message = "no good"
        raise ValueError(message)
    if value == "die":
        os._exit(7)
    if value == "wait":
        time.sleep(3600)
    if value == "odd":
        return lambda: None
    return value


@flowunit
def tail(value):
    """Returns a view of all bytes but the first, without a copy."""
    return memoryview(value)[1:]


class Uncrossing:
    """An object that raises EOFError while being pickled or unpickled."""

    def __init__(self, when):
        self.when = when

    def __reduce__(self):
        if self.when == "sent":
            _end("sent")
        return _end, ("read",)


def _end(how):
    message = f"cannot be {how}"
    raise EOFError(message)


class Odd(Exception):  # noqa: N818
    """An exception that its arguments alone cannot recreate."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@flowunit
def raises_odd(value):
    """Raises an exception that cannot be copied."""
    raise Odd(1, 2)


@dataclass(frozen=True)
class Options:
    """Options of a unit."""

    folder: str = option("", help="Where to note what happens.")
    is_failing: bool = option(False, help="Fail in open.")


class Noting(FlowUnit):
    """Records its calls in files; emits meta, errors and other objects."""

    def open(self, config):
        self._folder = config.folder
        if config.is_failing:
            message = "cannot open"
            raise RuntimeError(message)
        self._note("open")

    def process(self, ctx: Context) -> None:
        values = []
        for buffer in ctx.input():
            assert not isinstance(buffer.data, np.ndarray) or not buffer.data.flags.writeable
            if buffer.data is None:
                values.append(ValueError("nothing"))
            else:
                meta = {"pid": os.getpid(), "was": buffer.get("kind"), "size": len(ctx.input())}
                values.append(Buffer({"box": Box(1, 2, 3, 4), "data": buffer.data}, meta))
        ctx.emit(values)

    def close(self):
        self._note("close")
        if os.path.exists(os.path.join(self._folder, "fail")):
            message = "cannot close"
            raise RuntimeError(message)

    def _note(self, what):
        if self._folder:
            with open(os.path.join(self._folder, f"{what}_{os.getpid()}"), "w") as file:
                file.write(what)


NOTING = FlowUnitSpec(
    "noting",
    {"cpu": "tests.runtime.process_units:Noting"},
    inputs=(Port("in"),),
    outputs=(Port("out"),),
    options=Options,
)


class InPlace(FlowUnit):
    """Writes to its input."""

    def process(self, ctx: Context) -> None:
        for buffer in ctx.input():
            buffer.data[:] = 7
        ctx.emit(ctx.input())


IN_PLACE = FlowUnitSpec(
    "in_place",
    {"cpu": InPlace},
    inputs=(Port("in", is_in_place=True),),
    outputs=(Port("out"),),
)


class Ending(BaseException):
    """An exception of the kind that Rust extensions raise."""


ENDINGS = {
    error.__name__: error
    for error in (SystemExit, GeneratorExit, asyncio.CancelledError, KeyboardInterrupt, Ending)
}


@flowunit
def ends_by(name):
    """Raises an exception that is not an `Exception`."""
    if name in ENDINGS:
        raise ENDINGS[name]("of the item's own")
    return os.getpid()


class HangsInOpen(FlowUnit):
    """Opens a pipe, writes to the pipe, and then hangs in `open`."""

    def open(self, config):
        with open(config.folder, "w") as pipe:
            pipe.write("opening")
        time.sleep(3600)


HANGS_IN_OPEN = FlowUnitSpec(
    "hangs_in_open",
    {"cpu": "tests.runtime.process_units:HangsInOpen"},
    inputs=(Port("in"),),
    outputs=(Port("out"),),
    options=Options,
)


class HangsInClose(FlowUnit):
    """Hangs in ``close``."""

    def process(self, ctx: Context) -> None:
        ctx.emit([os.getpid() for _ in ctx.input()])

    def close(self):
        time.sleep(3600)


HANGS_IN_CLOSE = FlowUnitSpec(
    "hangs_in_close",
    {"cpu": "tests.runtime.process_units:HangsInClose"},
    inputs=(Port("in"),),
    outputs=(Port("out"),),
)


@flowunit(hands_over_arrays=True)
def hand_over(value):
    """Passes its input on, which is one array for several rows."""
    return value
