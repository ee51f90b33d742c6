"""Runs one flow unit in a graph of its own, with a limit for calls without input."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream, FlowFailed, FlowUnitError, did_you_mean
from modelflow.flow import Flow
from modelflow.registry.folder import read_unit_file
from modelflow.registry.registry import Registry
from modelflow.stream_io import StreamIO
from modelflow.testing.alone import graph_of, input_of, output_of
from modelflow.unit.kind import Collapse, Condition, Loop, Source, Stream
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.stream_context import StreamContext
from modelflow.unit.unit import Context, FlowUnit


def limit_calls(spec: FlowUnitSpec, device: str, max_calls: int) -> FlowUnitSpec:
    """Returns the spec of the same unit on one device, with a limit for calls without input.

    A source ends after ``max_calls`` calls, and a stream unit gets at most that many events. There
    are no waits: an event comes at once in spite of its delay, and `hold` has no effect.
    """
    if not isinstance(spec.kind, Source | Stream):
        return spec

    def make() -> FlowUnit:
        unit: Any = spec.create(device)
        unit.process = _Bounded(unit.process, max_calls)
        return unit  # type: ignore[no-any-return]

    return replace(spec, devices={device: make})


class _Bounded:
    """A counting wrapper of the ``process`` of a unit."""

    def __init__(self, process: Callable[[Context], object], max_calls: int) -> None:
        self._process = process
        self._left = max_calls

    def __call__(self, context: StreamContext) -> object:
        is_own = context.event is not None or not context.inputs
        if is_own and not self._left:
            context.finish()
            return None
        self._left -= is_own
        post = context._post
        context._post = lambda event, _delay: post(event, 0.0)
        try:
            return self._process(context)
        finally:
            context.is_held = False


Inputs = Mapping[str, Sequence[Any]]
Outputs = dict[str, list[Buffer]]

# The results are read after the run. A bound would block the unit.
_UNBOUNDED = 1 << 62


def read_unit(path: str | os.PathLike[str]) -> FlowUnitSpec:
    """Returns the description in a unit file (``NAME.toml``), for `run_unit`.

    Raises:
        ConfigError: the file has mistakes. The error lists all of them.
    """
    return read_unit_file(Path(path), Registry().find)


def run_unit(
    spec: FlowUnitSpec,
    inputs: Inputs | None = None,
    *,
    device: str = "cpu",
    max_calls: int = 10_000,
    **options: Any,
) -> Outputs:
    """Opens a unit, runs one session in a separate graph, and closes the unit.

    A batch larger than the unit's ``max_batch_size`` makes several calls. A stream unit and a
    collapse get the inputs as one whole stream. A loop is called once for each buffer.

    Args:
        spec: The unit's description.
        inputs: Input port -> the batch: buffers, or plain data. None for a source, which is called
            until it finishes.
        device: The kind of device. The batch is moved to this device, and the results to the host.
        max_calls: The most calls of a source, or of a stream unit that sends events to itself.
        options: The unit's options, as in a graph file.

    Returns:
        Output port -> the emitted buffers, in the order of the inputs. Failed buffers have an
        error. For a sink ``{"errors": [...]}`` with the failed buffers.

    Raises:
        ConfigError: the options are wrong.
        KeyError: the unit has no such input.
        TypeError: ``spec`` is no description of a unit.
        Exception: the unit's ``open`` or ``close`` raised this exception.
    """
    return run_unit_for(spec, [inputs or {}], device, options, max_calls)[0]


def run_unit_for(
    spec: FlowUnitSpec,
    sessions: Sequence[Inputs],
    device: str,
    options: Mapping[str, Any],
    max_calls: int = 10_000,
) -> list[Outputs]:
    """Runs several sessions of a unit, each after the previous, as `run_unit` does."""
    given: object = spec  # callers often pass a name or the unit itself
    if not isinstance(given, FlowUnitSpec):
        raise TypeError(
            f"run_unit: got {given!r:.60}; expected a FlowUnitSpec: the SPEC of a unit or of a "
            "decorated function, or the result of read_unit"
        )
    _check_ports(spec, sessions[0])
    spec.configure(options)  # raises the unit's own errors, and not those of a graph
    most = max((len(values) for values in sessions[0].values()), default=1)
    batch_size = None if isinstance(spec.kind, Stream) else max(1, most)
    running = limit_calls(spec, device, max_calls)
    if isinstance(spec.kind, Loop):  # without a back edge each buffer leaves by one output
        running = replace(running, kind=Condition())
    graph = graph_of(running, sessions[0], device, options, batch_size)
    try:
        with Flow(graph, threads=0, results_bound=_UNBOUNDED) as flow:
            return [_results(flow, spec, inputs) for inputs in sessions]
    except FlowFailed as failure:
        first = failure.exceptions[0]
        raise (first.__cause__ or first) from failure  # the exception of the unit itself


def _check_ports(spec: FlowUnitSpec, given: Inputs) -> None:
    names = spec.input_names
    for port in given:
        if port not in names:
            raise KeyError(
                f"flow unit {spec.name!r} has no input {port!r}{did_you_mean(port, names)} "
                f"(inputs: {', '.join(names) or 'none'})"
            )


def _results(flow: Flow, spec: FlowUnitSpec, inputs: Inputs) -> Outputs:
    """Sends the inputs of one session and returns its results."""
    if spec.is_source:
        flow.wait()
        (source,) = flow.scheduler.sources
        stream = flow.create_stream_io(source=source)
        found = {name: list(_receive(stream, name)) for name in stream.outputs}
    else:
        stream = flow.create_stream_io()
        whole = {port: [_buffer(v) for v in values] for port, values in inputs.items()}
        if isinstance(spec.kind, Collapse):
            whole = {port: [Buffer(values)] for port, values in whole.items()}
        found = stream.exchange({input_of(port): values for port, values in whole.items()})
    if spec.is_sink:
        return {"errors": list(map(_fail, stream.errors))}
    return {port.name: found[output_of(port.name)] for port in spec.outputs}


def _receive(stream: StreamIO, output: str) -> Iterator[Buffer]:
    while True:
        try:
            yield stream.recv(output, errors="return")
        except EndOfStream:
            return


def _fail(error: Exception) -> Buffer:
    assert isinstance(error, FlowUnitError)  # every error from a unit is one
    return Buffer.from_error(error)


def _buffer(value: Any) -> Buffer:
    return value if isinstance(value, Buffer) else Buffer(value)
