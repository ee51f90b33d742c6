"""Public test helpers: what the flow units of modelflow are tested with."""

from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context
from modelflow.runtime.call import UnitCall, freeze

__all__ = ["run_unit"]


def run_unit(
    spec: FlowUnitSpec,
    inputs: Mapping[str, Sequence[Any]] | None = None,
    *,
    device: str = "cpu",
    **options: Any,
) -> dict[str, list[Buffer]]:
    """Opens a unit, calls it once with a batch as a graph would, and closes it.

    Args:
        spec: The unit's description.
        inputs: Input port -> the batch: buffers, or plain data; None for a source, which is called
            until it says that it is done.
        device: The kind of device.
        options: The unit's options, as in a graph file.

    Returns:
        Output port -> the buffers, in the order of the inputs; those that failed carry an error.
        For a sink ``{"errors": [...]}`` with the buffers that failed.

    Raises:
        ConfigError: the options do not fit.
    """
    unit = spec.create(device)
    unit.open(spec.configure(options))
    try:
        if spec.is_source:
            return _drained(spec, unit)
        columns = [[_wrapped(v) for v in values] for values in (inputs or {}).values()]
        has_errors = any(buffer.error for column in columns for buffer in column)
        call = UnitCall(
            unit,
            spec,
            spec.name,
            inputs=tuple(inputs or {}),
            consumers=[1] * len(spec.outputs),
        )
        results = call.process(columns, has_errors, lambda _row: None)
    finally:
        unit.close()
    if spec.is_sink:
        return {"errors": [buffer for buffer in results[0] if buffer.has_error()]}
    return {port.name: result for port, result in zip(spec.outputs, results, strict=True)}


def _wrapped(value: Any) -> Buffer:
    buffer = value if isinstance(value, Buffer) else Buffer(value)
    freeze(buffer, is_single=False)
    return buffer


def _drained(spec: FlowUnitSpec, unit: Any) -> dict[str, list[Buffer]]:
    found: dict[str, list[Buffer]] = {port.name: [] for port in spec.outputs}
    state: dict[str, Any] = {}
    while True:
        context = Context({}, {name: [] for name in found}, {}, state)
        unit.process(context)
        for name, values in context.outputs.items():
            found[name].extend(v if isinstance(v, Buffer) else Buffer(v) for v in values)
        if context.is_finished:
            return found
