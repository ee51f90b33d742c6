"""Checks that a flow unit keeps the rules on which the runtime depends."""

import copy
import threading
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError
from modelflow.testing.run import run_unit, run_unit_for
from modelflow.unit.kind import Condition, Expand, Loop, Normal
from modelflow.unit.spec import FlowUnitSpec

# Kinds with independent rows: a batch and single rows have the same results.
_BY_ROW = (Normal, Condition, Expand, Loop)


def check_flow_unit(
    spec: FlowUnitSpec,
    inputs: Mapping[str, Sequence[Any]] | None = None,
    *,
    device: str = "cpu",
    **options: Any,
) -> None:
    """Checks that a unit keeps the rules on which the runtime depends.

    The rules:

    - Ports and options are documented.
    - An unknown, a missing and an unsuitable option are refused by name.
    - Outputs are allowed for the kind of the unit, and in the order of the inputs.
    - A second run has the same outputs. So do single rows, if the rows are independent.
    - Inputs do not change.
    - A unit that hands its arrays over (`FlowUnitSpec.hands_over_arrays`) emits none twice.
    - After a failure the unit processes good data, and it closes.
    - No thread remains.

    Args:
        spec: The unit's description.
        inputs: Input port -> at least two items that the unit can process; None for a source.
        device: The kind of device.
        options: Options that fit the items. For a source they must make it end.

    Raises:
        AssertionError: the unit breaks a rule, which the message names.
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
        raise AssertionError(f"flow unit {spec.name!r} {message}")


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
    _check_handed_over(spec, inputs, device, options)
    given = _copy_input(inputs)
    whole = run_unit(spec, given, device=device, **options)
    for port in (port.name for port in spec.inputs if not port.is_in_place and port.name in inputs):
        _require_same(spec, given[port], _copy_input(inputs)[port], "its input before and after")
    other = "two runs"
    again = run_unit(spec, _copy_input(inputs), device=device, **options)
    if isinstance(spec.kind, _BY_ROW):
        other, again = "a batch and single buffers", {name: [] for name in whole}
        for row in range(sizes.pop()):
            one = {port: values[row : row + 1] for port, values in _copy_input(inputs).items()}
            for name, buffers in run_unit(spec, one, device=device, **options).items():
                again[name].extend(buffers)
    for name, buffers in whole.items():
        failed = [buffer.get_error_msg() for buffer in buffers if buffer.has_error()]
        _require(not failed, spec, f"fails: {failed}")
        _require_same(spec, buffers, again[name], other)


def _check_goes_on(
    spec: FlowUnitSpec, inputs: Mapping[str, Sequence[Any]], device: str, options: Mapping[str, Any]
) -> None:
    """Calls the unit with invalid data and then with valid data, and closes the unit."""
    size = len(next(iter(inputs.values())))
    strange = {port: [object() for _ in range(size)] for port in inputs}
    found, again = run_unit_for(spec, [strange, _copy_input(inputs)], device, options)
    if isinstance(spec.kind, Normal) and not spec.is_sink:
        for column in found.values():
            _require(len(column) == size, spec, "loses buffers where it fails")
    fresh = run_unit(spec, _copy_input(inputs), device=device, **options)
    for port, column in again.items():
        _require_same(spec, column, fresh[port], "after an error and before")


def _check_handed_over(
    spec: FlowUnitSpec, inputs: Mapping[str, Sequence[Any]], device: str, options: Mapping[str, Any]
) -> None:
    """Calls the unit twice, and checks that no two arrays that may be written share memory."""
    if not spec.hands_over_arrays:
        return
    first, second = run_unit_for(spec, [_copy_input(inputs), _copy_input(inputs)], device, options)
    columns = chain(first.values(), second.values())
    found = [buffer.data for buffer in chain.from_iterable(columns)]
    arrays = [one for one in found if isinstance(one, np.ndarray) and one.flags.writeable]
    for one, other in combinations(arrays, 2):
        is_kept = np.shares_memory(one, other)
        _require(not is_kept, spec, "emits memory twice, although it has hands_over_arrays")


def _copy_input(inputs: Mapping[str, Sequence[Any]]) -> dict[str, list[Buffer]]:
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
