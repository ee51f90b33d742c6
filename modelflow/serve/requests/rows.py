"""Arrays of requests as the items of a graph, and its buffers as arrays again.

An image batch ``(2, 224, 224, 3)`` for a batched input is two items of ``(224, 224, 3)``; the two
buffers that come out of "scores", ``(10,)`` each, are one array ``(2, 10)``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.files.json_value import json_value
from modelflow.graph.graph_port import GraphPort, Signature, tensor_text
from modelflow.serve.requests.status import attempt, problem_of
from modelflow.wire.problem import Code, Problem, refuse
from modelflow.wire.tensor import TensorSpec, shape_text

Array = npt.NDArray[Any]
_NUMBERS = (np.ndarray, np.generic, int, float)


def items_of(signature: Signature, arrays: Mapping[str, Array]) -> dict[str, list[Any]]:
    """Cuts the arrays of a request into the items of each input.

    Args:
        signature: What the graph takes.
        arrays: One for each input: ``(rows, ...)`` where the input is batched.

    Returns:
        By input the items: arrays, scalars of NumPy, or ``bytes`` where the elements are.

    Raises:
        Problem: the inputs are not those of the graph, the shapes are not theirs, or batched
            inputs have different numbers of rows.
    """
    ports = signature.inputs
    if not (len(ports) == len(arrays) == 1 and ports[0].name in arrays):
        _check_names(signature, arrays)
    items: dict[str, list[Any]] = {}
    for port in ports:
        array = arrays[port.name]
        if port.tensor is not None and port.tensor.dtype.kind == "V":
            array = array.astype(port.tensor.dtype)  # bfloat16, read as float32: nothing is lost
        _check_shape(port, array)
        if not port.is_batched or is_whole(port, array):
            items[port.name] = [_item(array)]
        else:
            items[port.name] = list(array) if array.dtype != object else [*map(_item, array)]
    if len(items) > 1:
        _check_lengths(signature, items, arrays)
        count = max(map(len, items.values()))
        for port in ports:
            if is_whole(port, arrays[port.name]):
                items[port.name] *= count
    return items


def hide_triggers(signature: Signature) -> tuple[Signature, dict[str, list[Any]]]:
    """Returns what clients see of a graph that takes nothing but triggers: no input, and no batch.

    Returns:
        The signature, and the items that the graph gets in the place of a request's; none where
        clients send the inputs themselves.
    """
    if not all(port.is_trigger for port in signature.inputs):
        return signature, {}
    outputs = tuple(replace(port, is_batched=False) for port in signature.outputs)
    return Signature((), outputs), {port.name: [None] for port in signature.inputs}


def is_whole(port: GraphPort, array: Array) -> bool:
    """Tells whether an array of no axes is the value of all rows of a request.

    It is where the model's input has no batch axis (a threshold), and where the model itself judges
    the shapes.
    """
    tensor = port.tensor
    return (
        not array.ndim
        and tensor is not None
        and port.is_batched
        and (tensor.is_batched is False or not tensor.is_shape_checked)
    )


def rows_of(signature: Signature, arrays: Mapping[str, Array]) -> int:
    """Returns how many items there are in what `items_of` would cut, without cutting it.

    Raises:
        Problem: as `items_of`.
    """
    _check_names(signature, arrays)
    lengths: dict[str, Sequence[Any]] = {}
    for port in signature.inputs:
        array = arrays[port.name]
        _check_shape(port, array)
        is_one = not port.is_batched or is_whole(port, array)
        lengths[port.name] = range(1 if is_one else len(array))
    _check_lengths(signature, lengths, arrays)
    return max(map(len, lengths.values()), default=0)


def _check_shape(port: GraphPort, array: Array) -> None:
    if not port.is_batched:
        _check_fits(port, array.shape, "the shape")
    elif is_whole(port, array):
        return
    elif array.ndim:
        _check_fits(port, array.shape[1:], "items of shape")
    else:
        refuse(
            f"input {port.name!r}: got one value; expected a list of them, a row an item (its "
            "first axis counts the items)"
        )


def _check_lengths(
    signature: Signature, items: Mapping[str, Sequence[Any]], arrays: Mapping[str, Array]
) -> None:
    lengths = {
        port.name: len(items[port.name])
        for port in signature.inputs
        if port.is_batched and not is_whole(port, arrays[port.name])
    }
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        refuse(f"the inputs have different numbers of rows: {told}; each row is one item")


def values_of(port: GraphPort, buffers: Sequence[Buffer]) -> Array | list[Any]:
    """Puts what came out of an output together again.

    Args:
        port: The output.
        buffers: None of them in error.

    Returns:
        An array, ``(buffers, ...)`` where the output is batched; a list where nothing says that it
        is of numbers, and the items are of different shapes, or no arrays at all.

    Raises:
        Problem: it is said to be of numbers, and the items are of different shapes.
    """
    if len(buffers) == 1:
        only = buffers[0].data
        if not port.is_batched:
            return _whole(port, only)
        if isinstance(only, _NUMBERS):
            return np.asarray(only)[np.newaxis]
    data = [buffer.data for buffer in buffers]
    if not data:
        return _nothing(port.tensor)
    if all(isinstance(value, _NUMBERS) for value in data):
        return _join(port, [np.asarray(value) for value in data])
    if all(isinstance(value, bytes | bytearray | memoryview | str) for value in data):
        return _texts(data)
    numbers = _numbers_of(port, data)
    return data if numbers is None else _join(port, numbers)


def column_of(buffers: Sequence[Buffer]) -> Array | None:
    """Returns what came out of an output as an array; None: it is not numbers of one shape."""
    data = []
    for buffer in buffers:
        if buffer.error is not None:
            return None
        data.append(buffer.data)
    first = data[0]
    if len(set(map(type, data))) > 1 or not isinstance(first, np.ndarray | np.generic | float):
        return None
    if isinstance(first, str | bytes):  # NumPy's; an array of them is as wide as the longest
        return None
    if isinstance(first, np.ndarray):
        for one in data:
            if one.shape != first.shape or one.dtype != first.dtype:
                return None
    return np.array(data)


def columns_of(
    ports: Mapping[str, GraphPort], found: Mapping[str, Sequence[Buffer]]
) -> dict[str, Array | None]:
    """Returns `column_of` each output; None also where it has no batch axis."""
    return {
        name: column_of(buffers) if ports[name].is_batched else None
        for name, buffers in found.items()
    }


def split_values(
    ports: Mapping[str, GraphPort],
    sizes: Sequence[int],
    found: Mapping[str, Sequence[Buffer]],
    columns: Mapping[str, Array | None],
) -> list[dict[str, Array | list[Any]] | Problem]:
    """Returns what `values_of` gives of each of some requests, or why there is nothing.

    Args:
        ports: The outputs, by name.
        sizes: How many rows each request has.
        found: Of each output a buffer for each of their rows.
        columns: What `columns_of` gives of these.
    """

    def values(start: int, end: int) -> dict[str, Array | list[Any]]:
        own = {name: found[name][start:end] for name, column in columns.items() if column is None}
        for buffers in own.values():
            check_buffers(buffers, end - start)
        return {
            name: values_of(ports[name], own[name]) if column is None else column[start:end]
            for name, column in columns.items()
        }

    bounds = [0, *accumulate(sizes)]
    return [attempt(values, start, end) for start, end in pairwise(bounds)]


def check_buffers(buffers: Sequence[Buffer], rows: int) -> None:
    """Checks that nothing that came out of an output is in error.

    Args:
        buffers: What came of one request.
        rows: How many rows that has; of several the message says which item failed.

    Raises:
        Problem: one is.
    """
    for place, buffer in enumerate(buffers):
        if buffer.error is not None:
            item = place if rows > 1 else None
            raise problem_of(buffer.error, item)


def _whole(port: GraphPort, value: Any) -> Array | list[Any]:
    """Returns the only buffer of an output that is not batched."""
    numbers = _numbers_of(port, [value])
    if numbers is not None:
        return numbers[0]
    return value if isinstance(value, list) else _array(value)


def _is_of_numbers(port: GraphPort) -> bool:
    return port.tensor is not None and not port.tensor.dtype.hasobject


def _numbers_of(port: GraphPort, values: Sequence[Any]) -> list[Array] | None:
    """Returns lists as the arrays of numbers that an output is said to be; None: they are none."""
    if not _is_of_numbers(port) or not all(isinstance(value, list | tuple) for value in values):
        return None
    assert port.tensor is not None  # it is of numbers
    try:
        return [np.asarray(value, port.tensor.dtype) for value in values]
    except (ValueError, TypeError, OverflowError):
        return None


def _join(port: GraphPort, arrays: list[Array]) -> Array | list[Any]:
    shapes = dict.fromkeys(array.shape for array in arrays)
    if len(shapes) == 1:
        return np.stack(arrays)
    if port.tensor is None or not _is_of_numbers(port):
        return list(arrays)
    shown = ", ".join(shape_text(shape) for shape in list(shapes)[:4])
    raise Problem(
        f"output {port.name!r}: its {len(arrays)} items have different shapes, {shown}; expected "
        f"items of {tensor_text(port.tensor)}, which make one tensor; ask for one item a request",
        Code.FAILED_PRECONDITION,
    )


def as_bytes(value: Any) -> bytes:
    """Returns a value that is no array as a protocol carries it that has only arrays: as JSON.

    Raises:
        ValueError: JSON has no form for it.
    """
    return json.dumps(json_value(value)).encode()


def _array(value: Any) -> Array | list[Any]:
    if isinstance(value, _NUMBERS):
        return np.asarray(value)
    if isinstance(value, bytes | bytearray | memoryview | str):
        return _texts([value]).reshape(())
    return [value]


def _texts(values: Sequence[Any]) -> Array:
    found = np.empty(len(values), dtype=object)
    found[:] = [value.encode() if isinstance(value, str) else bytes(value) for value in values]
    return found


def _nothing(tensor: TensorSpec | None) -> Array:
    if tensor is None:
        return np.empty((0,), np.float32)
    return np.empty((0, *(extent or 0 for extent in tensor.shape or ())), tensor.dtype)


def _item(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype == object:
        return value.item()
    return value


def _check_names(signature: Signature, arrays: Mapping[str, Array]) -> None:
    names = [port.name for port in signature.inputs]
    extra, missing = [n for n in arrays if n not in names], [n for n in names if n not in arrays]
    if extra or missing:
        refuse(
            f"input size does not match signature: {len(arrays)}!={len(names)} len({{"
            f"{','.join(sorted(arrays))}}}) != len({{{','.join(sorted(names))}}}). Sent extra: {{"
            f"{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
        )


def check_item(port: GraphPort, array: Array) -> None:
    """Looks whether an array can be one item of an input.

    Raises:
        Problem: its shape is not the input's.
    """
    _check_fits(port, array.shape, "an item of shape" if port.is_batched else "the shape")


def _check_fits(port: GraphPort, given: tuple[int, ...], what: str) -> None:
    tensor = port.tensor
    if tensor is None or tensor.shape is None or not tensor.is_shape_checked:
        return
    wanted = tensor.shape
    fits = len(given) == len(wanted)
    if fits:  # a loop of its own: every request passes here
        for length, own in zip(wanted, given, strict=True):
            if length is not None and length != own:
                fits = False
    if not fits:
        message = f"input {port.name!r}: got {what} {shape_text(given)}; expected "
        raise Problem(message + shape_text(wanted), Code.INVALID_ARGUMENT)


def describe_tensor(port: GraphPort) -> TensorSpec | None:
    """Returns the tensor of a port as clients see it, with the batch as axis 0; None: anything."""
    tensor = port.tensor
    if tensor is None or not port.is_batched or tensor.shape is None:
        return tensor
    return TensorSpec(tensor.name, tensor.dtype, (None, *tensor.shape))


def as_tensor(value: Any) -> npt.NDArray[Any]:
    """Returns what came out of an output as an array; what is none as an array of JSON texts."""
    if isinstance(value, np.ndarray):
        return value
    texts = np.empty(len(value), dtype=object)
    texts[:] = [as_bytes(one) for one in value]
    return texts
