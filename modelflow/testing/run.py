"""Running one flow unit by itself, as a graph does, bounded where it would go on."""

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
    """Returns the spec of the same unit on one device, called at most so often by itself.

    A source is over after ``max_calls`` calls, a stream unit is given that many events. Neither is
    waited for: an event comes at once, whatever its delay, and `hold` holds nothing.
    """
    if not isinstance(spec.kind, Source | Stream):
        return spec

    def make() -> FlowUnit:
        unit: Any = spec.create(device)
        unit.process = _Bounded(unit.process, max_calls)
        return unit  # type: ignore[no-any-return]

    return replace(spec, devices={device: make})


class _Bounded:
    """The ``process`` of a unit, which counts."""

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

# Results wait for nobody who could read them meanwhile.
_UNBOUNDED = 1 << 62


def read_unit(path: str | os.PathLike[str]) -> FlowUnitSpec:
    """Returns the description in a unit file (``NAME.toml``), for `run_unit`.

    Raises:
        ConfigError: the file is wrong; every mistake is listed.
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
    """Opens a unit, runs it in a graph of its own for one session, and closes it.

    A batch larger than the unit's ``max_batch_size`` makes several calls. To a stream unit, and to
    a collapse, the inputs are one whole stream. A loop is called once for each buffer.

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
        KeyError: the unit has no such input.
        TypeError: ``spec`` is no description of a unit.
        Exception: what the unit's ``open`` or ``close`` raised.
    """
    return run_unit_for(spec, [inputs or {}], device, options, max_calls)[0]


def run_unit_for(
    spec: FlowUnitSpec,
    sessions: Sequence[Inputs],
    device: str,
    options: Mapping[str, Any],
    max_calls: int = 10_000,
) -> list[Outputs]:
    """Does what `run_unit` does, for several sessions of one unit, one after the other."""
    given: object = spec  # a name, or the unit itself, stands there easily
    if not isinstance(given, FlowUnitSpec):
        raise TypeError(
            f"run_unit: got {given!r:.60}; expected a FlowUnitSpec: the SPEC of a unit or of a "
            "decorated function, or what read_unit gives"
        )
    _check_ports(spec, sessions[0])
    spec.configure(options)  # its mistakes as they are, not as those of a graph
    most = max((len(values) for values in sessions[0].values()), default=1)
    batch_size = None if isinstance(spec.kind, Stream) else max(1, most)
    running = limit_calls(spec, device, max_calls)
    if isinstance(spec.kind, Loop):  # nothing leads back here: each buffer leaves by one output
        running = replace(running, kind=Condition())
    graph = graph_of(running, sessions[0], device, options, batch_size)
    try:
        with Flow(graph, threads=0, results_bound=_UNBOUNDED) as flow:
            return [_results(flow, spec, inputs) for inputs in sessions]
    except FlowFailed as failure:
        first = failure.exceptions[0]
        raise (first.__cause__ or first) from failure  # what the unit itself raised


def _check_ports(spec: FlowUnitSpec, given: Inputs) -> None:
    names = spec.input_names
    for port in given:
        if port not in names:
            raise KeyError(
                f"flow unit {spec.name!r} has no input {port!r}{did_you_mean(port, names)} "
                f"(inputs: {', '.join(names) or 'none'})"
            )


def _results(flow: Flow, spec: FlowUnitSpec, inputs: Inputs) -> Outputs:
    """Sends what one session is given, and returns what comes of it."""
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
    assert isinstance(error, FlowUnitError)  # as everything that comes from a unit
    return Buffer.from_error(error)


def _buffer(value: Any) -> Buffer:
    return value if isinstance(value, Buffer) else Buffer(value)
