"""Running one flow unit by itself, as a graph would."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.buffer import Buffer
from modelflow.device import CPU, Device
from modelflow.plan import Origin
from modelflow.registry.folder import read_unit_file
from modelflow.registry.registry import Registry
from modelflow.runtime.call import BatchCall, UnitCall, freeze
from modelflow.runtime.kinds import running_kind
from modelflow.runtime.kinds.source import SourceCall
from modelflow.runtime.kinds.stream.call import StreamCall
from modelflow.runtime.kinds.stream.lane import OpenStream
from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.runtime.segment import Columns
from modelflow.runtime.session import Session
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.transfer import Transfer
from modelflow.unit.kind import Kind
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit, StreamContext

__all__ = ["call_of", "called", "opened", "read_unit", "run_unit", "wrapped"]


def read_unit(path: str | os.PathLike[str]) -> FlowUnitSpec:
    """Returns the description in a unit file (``NAME.toml``), for `run_unit`.

    Raises:
        ConfigError: the file is wrong; every mistake is listed.
    """
    return read_unit_file(Path(path), Registry().find)


def run_unit(
    spec: FlowUnitSpec,
    inputs: Mapping[str, Sequence[Any]] | None = None,
    *,
    device: str = "cpu",
    max_calls: int = 10_000,
    **options: Any,
) -> dict[str, list[Buffer]]:
    """Opens a unit, calls it as a graph would for one session, and closes it.

    A batch larger than the unit's ``max_batch_size`` makes several calls. To a stream unit, and to
    a collapse, the inputs are one whole stream.

    Args:
        spec: The unit's description.
        inputs: Input port -> the batch: buffers, or plain data; None for a source, which is called
            until it says that it is done.
        device: The kind of device; the batch is moved there, and what is given to the host.
        max_calls: How often a source, or a stream unit that sends itself events, is called at most.
        options: The unit's options, as in a graph file.

    Returns:
        Output port -> the buffers that left by it, in the order of the inputs; those that failed
        carry an error. For a sink ``{"errors": [...]}`` with the buffers that failed.

    Raises:
        ConfigError: the options do not fit.
    """
    unit = opened(spec, device, options)
    try:
        call = call_of(unit, spec, tuple(inputs or {}))
        if spec.is_source:
            return _drained(spec, call, max_calls)
        columns = [[wrapped(v) for v in values] for values in (inputs or {}).values()]
        results = called(call, columns, max_calls)
    finally:
        unit.close()
    if spec.is_sink:
        return {"errors": [buffer for buffer in results[0] if buffer.has_error()]}
    return {port.name: result for port, result in zip(spec.outputs, results, strict=True)}


def opened(spec: FlowUnitSpec, device: str, options: Mapping[str, Any]) -> FlowUnit:
    """Returns a unit, opened on the first device of that kind.

    Raises:
        ConfigError: the options do not fit.
    """
    unit = spec.create(device)
    unit.device = Device(device)
    unit.open(spec.configure(options))
    return unit


def call_of(unit: FlowUnit, spec: FlowUnitSpec, inputs: tuple[str, ...]) -> UnitCall:
    """Returns what calls an opened unit whose ``inputs`` are connected."""
    return running_kind(spec).call(
        unit, spec, spec.name, inputs=inputs, consumers=[1] * len(spec.outputs)
    )


def called(call: UnitCall, columns: Columns, max_calls: int = 10_000) -> Columns:
    """Calls a unit for all rows; returns what left by each output, without gaps."""
    spec = call.spec
    device = call.unit.device
    if device != CPU:
        ports = [port for port in spec.inputs if port.name in call.inputs]
        transfer = Transfer(device, ports, frozenset(range(len(spec.outputs))), WorkerStats())
        with transfer.running():
            results = _called(call, transfer.arrive(columns), max_calls)
            transfer.depart(results)
        return results
    return _called(call, columns, max_calls)


def _called(call: UnitCall, columns: Columns, max_calls: int) -> Columns:
    spec = call.spec
    session = Session("test", "", _NOWHERE, in_flight=None, on_finished=lambda _: None)
    if isinstance(call, StreamCall):
        return _streamed(call, columns, session, max_calls)
    assert isinstance(call, BatchCall)  # sources are drained
    if spec.kind is Kind.COLLAPSE:
        whole: list[list[Any]] = [[column] for column in columns]
        return call.process(whole, _has_errors(columns), lambda _row: session.stream)
    stream = session.stream if spec.is_per_stream or spec.kind is not Kind.NORMAL else None
    step = spec.max_batch_size or max(len(columns[0]), 1)
    results: list[list[Any]] = [[] for _ in spec.outputs or ("",)]
    for start in range(0, max(len(columns[0]), 1), step):
        batch = [column[start : start + step] for column in columns]
        found: list[list[Any]] = call.process(batch, _has_errors(batch), lambda _row: stream)
        for result, cells in zip(results, found, strict=True):
            for cell in cells:
                if cell is not None:
                    result.extend(cell if isinstance(cell, list) else [cell])
    return results


_NOWHERE = Origin((), (), (), frozenset(), is_counted=False)


def _has_errors(columns: Columns) -> bool:
    return any(buffer.error for column in columns for buffer in column)


def wrapped(value: Any) -> Buffer:
    """Returns the value as a buffer that a unit may be given: its array is read-only."""
    buffer = value if isinstance(value, Buffer) else Buffer(value)
    freeze(buffer, is_single=False)
    return buffer


def _streamed(call: StreamCall, columns: Columns, session: Session, max_calls: int) -> Columns:
    """Calls a stream unit for one whole stream, and for its own events."""
    is_same = call.spec.is_same_count and not call.spec.is_sink
    numberings = [
        Numbering(session.stream, is_same_count=is_same) for _ in call.spec.outputs or ("",)
    ]
    stream = OpenStream(session.stream, numberings)
    results: Columns = [[] for _ in numberings]

    def post(event: Any, delay: float) -> bool:  # noqa: ARG001 - nobody waits here
        stream.events.append(event)
        return True

    def take() -> None:
        for numbering, given, result in zip(numberings, call.given, results, strict=True):
            result.extend(numbering.numbered(given)[1])
        call.begin()

    call.begin()
    call.start(stream, post)
    step = call.spec.max_batch_size or call.spec.batch_size or 1
    for start in range(0, len(columns[0]), step):
        batch = [column[start : start + step] for column in columns]
        call.rows(stream, range(start, start + len(batch[0])), batch, post)
        take()
    for _ in range(max_calls):
        if not stream.events:
            break
        call.event(stream, stream.events.popleft(), post)
        take()
    call.end(stream, is_cancelled=False)
    take()
    return results


def _drained(spec: FlowUnitSpec, call: UnitCall, max_calls: int) -> dict[str, list[Buffer]]:
    assert isinstance(call, SourceCall)  # of a spec without inputs
    found: dict[str, list[Buffer]] = {port.name: [] for port in spec.outputs}
    state: dict[str, Any] = {}
    for _ in range(max_calls):
        context = StreamContext(
            {}, {name: [] for name in found}, {}, state, {}, lambda _event, _delay: True
        )
        context.openings = [] if spec.is_session_opened else None
        for name, column in zip(found, call.produce(context), strict=True):
            found[name].extend(column)
        for opening in context.openings or ():
            for name, buffer in zip(found, call.row(opening), strict=True):
                found[name].append(buffer)
        if context.is_finished:
            break
    return found
