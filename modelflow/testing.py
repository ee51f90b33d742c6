"""Public test helpers: what the flow units of modelflow are tested with."""

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError
from modelflow.flowunit.folder import read_unit_file
from modelflow.flowunit.registry import Registry
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context
from modelflow.runtime.call import UnitCall, freeze
from modelflow.runtime.kinds.kind import call_type
from modelflow.runtime.segment import Columns

__all__ = ["check_flow_unit", "read_unit", "run_unit"]


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
    """Opens a unit, calls it with a batch as a graph would, and closes it.

    A batch larger than the unit's ``max_batch_size`` makes several calls.

    Args:
        spec: The unit's description.
        inputs: Input port -> the batch: buffers, or plain data; None for a source, which is called
            until it says that it is done.
        device: The kind of device.
        max_calls: How often a source is called at most, for one that never ends.
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
        ports = tuple(inputs or {})
        call = call_type(spec)(
            unit, spec, spec.name, inputs=ports, consumers=[1] * len(spec.outputs)
        )
        if spec.is_source:
            return _drained(spec, call, max_calls)
        columns = [[_wrapped(v) for v in values] for values in (inputs or {}).values()]
        results = _called(call, columns, spec.max_batch_size)
    finally:
        unit.close()
    if spec.is_sink:
        return {"errors": [buffer for buffer in results[0] if buffer.has_error()]}
    return {port.name: result for port, result in zip(spec.outputs, results, strict=True)}


def _wrapped(value: Any) -> Buffer:
    buffer = value if isinstance(value, Buffer) else Buffer(value)
    freeze(buffer, is_single=False)
    return buffer


def _called(call: UnitCall, columns: Columns, most: int | None) -> Columns:
    size = len(columns[0])
    step = most or max(size, 1)
    results: Columns = []
    for start in range(0, max(size, 1), step):
        batch = [column[start : start + step] for column in columns]
        has_errors = any(buffer.error for column in batch for buffer in column)
        found = call.process(batch, has_errors, lambda _row: None)
        results = [
            [*old, *new] for old, new in zip(results or [[]] * len(found), found, strict=True)
        ]
    return results


def _drained(spec: FlowUnitSpec, call: UnitCall, max_calls: int) -> dict[str, list[Buffer]]:
    found: dict[str, list[Buffer]] = {port.name: [] for port in spec.outputs}
    state: dict[str, Any] = {}
    for _ in range(max_calls):
        context = Context({}, {name: [] for name in found}, {}, state)
        for name, column in zip(found, call.produce(context), strict=True):
            found[name].extend(column)
        if context.is_finished:
            break
    return found


def check_flow_unit(
    spec: FlowUnitSpec,
    inputs: Mapping[str, Sequence[Any]] | None = None,
    *,
    device: str = "cpu",
    **options: Any,
) -> None:
    """Checks that a unit keeps the contract that the runtime builds on.

    That ports and options are documented; that an unknown, a missing and an unfit option are
    refused by name; that outputs are as many as inputs and in their order, the same in a batch and
    one by one, for a second time too; that inputs are left as they were; that a unit which failed
    goes on with good data and closes; and that no thread is left.

    Args:
        spec: The unit's description.
        inputs: Input port -> at least two items that the unit works with; None for a source.
        device: The kind of device.
        options: Options that fit the items; of a source: that make it end.

    Raises:
        AssertionError: naming what the unit does not keep.
    """
    threads = set(threading.enumerate())
    _check_documented(spec)
    _check_options(spec, options)
    if spec.is_source:
        _check_source(spec, device, options)
    else:
        _check_batches(spec, inputs or {}, device, options)
        _check_goes_on(spec, inputs or {}, device, options)
    left = [t.name for t in threading.enumerate() if t not in threads and t.is_alive()]
    _require(not left, spec, f"leaves threads: {left}")


def _require(holds: bool, spec: FlowUnitSpec, message: str) -> None:
    if not holds:
        text = f"flow unit {spec.name!r} {message}"
        raise AssertionError(text)


def _check_documented(spec: FlowUnitSpec) -> None:
    _require(bool(spec.description), spec, "has no description")
    for port in (*spec.inputs, *spec.outputs):
        _require(bool(port.description), spec, f"does not describe its port {port.name!r}")
    for option in spec.option_list:
        _require(bool(option.help), spec, f"does not document its option {option.name!r}")
        if not option.is_required and option.default is not None:
            converted = option.convert(option.default)
            same = converted == option.default and type(converted) is type(option.default)
            _require(same, spec, f"has a default of another type for option {option.name!r}")


def _check_options(spec: FlowUnitSpec, options: Mapping[str, Any]) -> None:
    bad: list[tuple[str, dict[str, Any]]] = []
    if not spec.accepts_any_option:
        bad.append(("no_such_option", {**options, "no_such_option": 1}))
    for option in spec.option_list:
        others = {k: v for k, v in options.items() if k not in (option.name, *option.aliases)}
        if option.type is not Any:
            bad.append((option.name, {**others, option.name: object()}))
        if option.is_required:
            bad.append((option.name, others))
    for name, given in bad:
        try:
            spec.configure(given)
        except ConfigError as error:
            _require(name in str(error), spec, f"does not name the bad option {name!r}: {error}")
        else:
            _require(False, spec, f"takes a bad value, or none, for option {name!r}")


def _check_source(spec: FlowUnitSpec, device: str, options: Mapping[str, Any]) -> None:
    first = run_unit(spec, device=device, **options)
    second = run_unit(spec, device=device, **options)
    for port, buffers in first.items():
        _require(bool(buffers), spec, f"gives nothing on output {port!r}")
        _require_same(spec, buffers, second[port], "two runs")


def _check_batches(
    spec: FlowUnitSpec, inputs: Mapping[str, Sequence[Any]], device: str, options: Mapping[str, Any]
) -> None:
    sizes = {len(values) for values in inputs.values()}
    _require(sizes not in (set(), {0}, {1}), spec, "needs two items at least to be checked")
    _require(len(sizes) == 1, spec, "needs as many items on every input to be checked")
    given = _copied(inputs)
    whole = run_unit(spec, given, device=device, **options)
    for port in (port.name for port in spec.inputs if not port.is_in_place and port.name in inputs):
        _require_same(spec, given[port], _copied(inputs)[port], "its input before and after")
    single: dict[str, list[Buffer]] = {name: [] for name in whole}
    for row in range(sizes.pop()):
        one = {port: values[row : row + 1] for port, values in _copied(inputs).items()}
        for name, buffers in run_unit(spec, one, device=device, **options).items():
            single[name].extend(buffers)
    for name, buffers in whole.items():
        failed = [buffer.get_error_msg() for buffer in buffers if buffer.has_error()]
        _require(not failed, spec, f"fails: {failed}")
        _require_same(spec, buffers, single[name], "a batch and single buffers")


def _check_goes_on(
    spec: FlowUnitSpec, inputs: Mapping[str, Sequence[Any]], device: str, options: Mapping[str, Any]
) -> None:
    """Calls with something that is no data, then with data again; closing must do no harm."""
    unit = spec.create(device)
    unit.open(spec.configure(options))
    try:
        call = call_type(spec)(
            unit, spec, spec.name, inputs=tuple(inputs), consumers=[1] * len(spec.outputs)
        )
        size = len(next(iter(inputs.values())))
        strange = [[_wrapped(object()) for _ in range(size)] for _ in inputs]
        for column in _called(call, strange, spec.max_batch_size):
            _require(len(column) == size, spec, "loses buffers where it fails")
        columns = [[_wrapped(v) for v in values] for values in _copied(inputs).values()]
        again = _called(call, columns, spec.max_batch_size)
    finally:
        unit.close()
    fresh = run_unit(spec, _copied(inputs), device=device, **options)
    for port, column in zip(spec.outputs, again, strict=False):
        _require_same(spec, column, fresh[port.name], "after an error and before")


def _copied(inputs: Mapping[str, Sequence[Any]]) -> dict[str, list[Buffer]]:
    return {port: [_copy(value) for value in values] for port, values in inputs.items()}


def _copy(value: Any) -> Buffer:
    buffer = value if isinstance(value, Buffer) else Buffer(value)
    return Buffer(copy.deepcopy(buffer.data), buffer.meta)


def _require_same(
    spec: FlowUnitSpec, left: Sequence[Buffer], right: Sequence[Buffer], what: str
) -> None:
    _require(len(left) == len(right), spec, f"gives {len(left)} and {len(right)} buffers: {what}")
    for row, (one, other) in enumerate(zip(left, right, strict=True)):
        same = (
            _is_same(one.data, other.data)
            and one.meta == other.meta
            and one.get_error_msg() == other.get_error_msg()
        )
        _require(same, spec, f"gives {one!r} and {other!r} at place {row}: {what} differ")


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == np.asarray(other).dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)
