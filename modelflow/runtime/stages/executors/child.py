"""The code that runs in the process of a unit, started by ``python -c``."""

import contextlib
import pickle
import time
import traceback
from collections.abc import Mapping
from types import CoroutineType
from typing import Any, NamedTuple

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device import Device
from modelflow.errors import describe_error
from modelflow.ipc.channel import Channel, MessageError, sendable
from modelflow.ipc.process import channels_of, read_job
from modelflow.runtime.stages.call import coroutine_error, make_return_error
from modelflow.unit.spec import factory_of
from modelflow.unit.unit import Context, FlowUnit

# Classes that are too general to describe an error.
_ANY = (Exception, BaseException, object)


class Item(NamedTuple):
    """A buffer that is sent between two processes.

    Attributes:
        data: The data.
        meta: The meta, or None.
    """

    data: Any
    meta: dict[str, Any] | None


class Answer(NamedTuple):
    """The results of a call.

    Attributes:
        values: The results by output.
        seconds: The time of the call in the unit, without the transfer.
    """

    values: dict[str, list[Any]]
    seconds: float


class Job(NamedTuple):
    """The unit of a process, and its settings.

    Attributes:
        factory: The factory of the unit, from `FlowUnitSpec.devices`.
        config: The options of the unit.
        device: The device of the unit.
        batch_size: The most buffers of a call.
        in_place: The inputs that the unit may write to.
        outputs: The names of the outputs.
    """

    factory: Any
    config: Any
    device: Device
    batch_size: int
    in_place: frozenset[str]
    outputs: tuple[str, ...]


def main(arguments: list[str]) -> None:
    """Prepares the process and works until the channel ends."""
    (channel,) = channels_of(arguments)
    with contextlib.suppress(EOFError, BrokenPipeError):
        run(channel)


def run(channel: Channel) -> None:
    """Creates and opens the unit, answers calls, then closes the unit."""
    try:
        job: Job = read_job(channel)
        unit: FlowUnit = factory_of(job.factory)()
        unit.device, unit.batch_size = job.device, job.batch_size
        unit.open(job.config)
    except BaseException as error:  # noqa: BLE001 - sent to the flow
        channel.send(_failure(error))
        return
    channel.send((True, {}))
    try:
        _work(channel, unit, job)
    except BaseException:
        unit.close()
        raise
    try:
        unit.close()
    except BaseException as error:  # noqa: BLE001 - sent to the flow
        channel.send(_failure(error))
    else:
        channel.send((True, {}))


def _work(channel: Channel, unit: FlowUnit, job: Job) -> None:
    """Answers calls until the flow sends None."""
    while True:
        try:
            inputs = channel.receive()
        except MessageError as error:  # such as a class that cannot be imported here
            channel.send(_failure(error.reason))
            continue
        if inputs is None:
            return
        answer: tuple[bool, Any]
        try:
            answer = True, _call(unit, job, inputs)
        except BaseException as error:  # noqa: BLE001 - the buffers' error, even a SystemExit
            answer = _failure(error)
        _send(channel, answer)


def _call(unit: FlowUnit, job: Job, inputs: Mapping[str, list[Item]]) -> Answer:
    given = {
        port: [_buffer(item, is_writable=port in job.in_place) for item in items]
        for port, items in inputs.items()
    }
    context = Context(given, {name: [] for name in job.outputs})
    start = time.perf_counter()
    returned: object = unit.process(context)  # type: ignore[func-returns-value]
    seconds = time.perf_counter() - start
    if returned is not None:
        raise make_return_error(unit, returned)
    values = {name: list(map(_format_error, found)) for name, found in context.outputs.items()}
    return Answer(values, seconds)


def _buffer(item: Item, *, is_writable: bool) -> Buffer:
    if isinstance(item.data, np.ndarray):
        item.data.flags.writeable = is_writable
    return Buffer(item.data, item.meta)


def _format_error(value: Any) -> Any:
    if isinstance(value, Buffer):
        return Item(sendable(value.data), value.meta)
    if type(value) is CoroutineType:
        value = coroutine_error(value)
    return _portable(value) if isinstance(value, Exception) else sendable(value)


def _send(channel: Channel, answer: Any) -> None:
    try:
        channel.send(answer)
    except MessageError as error:
        channel.send(_failure(error.reason))


def _failure(error: BaseException) -> tuple[bool, Exception]:
    return False, _portable(error)


def _portable(error: BaseException) -> Exception:
    """Returns a copy of the error, or an error with the same text if the copy fails.

    Adds a note with the traceback in this process.
    """
    text = "".join(traceback.format_exception(error))
    copied = _copy_error(error) if isinstance(error, Exception) else None
    if copied is None:
        said = describe_error(error)
        # Uses the nearest base class that can be created from a text. Handlers for that class, such
        # as the handler for refused data, still catch the error.
        above = (one for one in type(error).__mro__[1:] if one not in _ANY)
        made = (_make(one, said) for one in above if issubclass(one, Exception))
        copied = next((one for one in made if one is not None), None) or RuntimeError(said)
    copied.add_note(f"In the process of the unit:\n{text}")
    return copied


def _make(kind: type[Exception], said: str) -> Exception | None:
    try:
        return _copy_error(kind(said))
    except Exception:  # noqa: BLE001 - the constructor takes no single text
        return None


def _copy_error(error: Exception) -> Exception | None:
    """Returns the error as another process would receive the copy, or None if the copy fails."""
    try:
        copied: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - the class may raise any error when copied
        return None
    return copied if type(copied) is type(error) else None
