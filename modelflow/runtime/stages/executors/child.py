"""The process of a unit: what ``python -c`` runs there, with its descriptors and its parent."""

import contextlib
import pickle
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

# Classes that say nothing of an error.
_ANY = (Exception, BaseException, object)


class Item(NamedTuple):
    """A buffer on its way.

    Attributes:
        data: Its data.
        meta: Its meta; None: none.
    """

    data: Any
    meta: dict[str, Any] | None


class Job(NamedTuple):
    """What a process is for.

    Attributes:
        factory: Makes the unit, as `FlowUnitSpec.devices` has it.
        config: Its options.
        device: Where it runs.
        batch_size: The most buffers of a call.
        in_place: The inputs that it may write to.
        outputs: The names of its outputs.
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
    """Makes the unit, answers calls, closes the unit."""
    try:
        job: Job = read_job(channel)
        unit: FlowUnit = factory_of(job.factory)()
        unit.device, unit.batch_size = job.device, job.batch_size
        unit.open(job.config)
    except BaseException as error:  # noqa: BLE001 - it is told to the flow
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
    except BaseException as error:  # noqa: BLE001 - it is told to the flow
        channel.send(_failure(error))
    else:
        channel.send((True, {}))


def _work(channel: Channel, unit: FlowUnit, job: Job) -> None:
    """Answers calls until there are none."""
    while True:
        try:
            inputs = channel.receive()
        except MessageError as error:  # a value's class cannot be found here, say
            channel.send(_failure(error.reason))
            continue
        if inputs is None:
            return
        answer: tuple[bool, Any]
        try:
            answer = True, _call(unit, job, inputs)
        except BaseException as error:  # noqa: BLE001 - the buffers', also a SystemExit
            answer = _failure(error)
        _send(channel, answer)


def _call(unit: FlowUnit, job: Job, inputs: Mapping[str, list[Item]]) -> dict[str, list[Any]]:
    given = {
        port: [_buffer(item, is_writable=port in job.in_place) for item in items]
        for port, items in inputs.items()
    }
    context = Context(given, {name: [] for name in job.outputs})
    returned: object = unit.process(context)  # type: ignore[func-returns-value]
    if returned is not None:
        raise make_return_error(unit, returned)
    return {name: list(map(_format_error, values)) for name, values in context.outputs.items()}


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
    """Returns the error itself, or one that says the same where it cannot go to another process.

    A note of it says where it was raised here.
    """
    text = "".join(traceback.format_exception(error))
    copied = _copy_error(error) if isinstance(error, Exception) else None
    if copied is None:
        said = describe_error(error)
        # Of the nearest class above its own that can be made of a text: what is caught as it still
        # is, a refusal of data first of all.
        above = (one for one in type(error).__mro__[1:] if one not in _ANY)
        made = (_make(one, said) for one in above if issubclass(one, Exception))
        copied = next((one for one in made if one is not None), None) or RuntimeError(said)
    copied.add_note(f"In the process of the unit:\n{text}")
    return copied


def _make(kind: type[Exception], said: str) -> Exception | None:
    try:
        return _copy_error(kind(said))
    except Exception:  # noqa: BLE001 - it wants something else than a text
        return None


def _copy_error(error: Exception) -> Exception | None:
    """Returns what another process would be given of an error; None: nothing of its class."""
    try:
        copied: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever its class does when it is copied
        return None
    return copied if type(copied) is type(error) else None
