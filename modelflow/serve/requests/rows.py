"""Conversion of request arrays to the items of a graph, and of result buffers to arrays.

An image batch ``(2, 224, 224, 3)`` for a batched input becomes two items of ``(224, 224, 3)``.
The two result buffers of the output "scores", ``(10,)`` each, become one array ``(2, 10)``.
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
        signature: The inputs of the graph.
        arrays: An array for each input, ``(rows, ...)`` if the input is batched.

    Returns:
        The items by input. An item is an array, a NumPy scalar, or ``bytes`` for string elements.

    Raises:
        Problem: the input names or shapes do not match the graph, or batched inputs have different
            numbers of rows.
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
    """Returns the signature without trigger inputs, if the graph has no other inputs.

    Such a graph has no inputs and no batch axis for clients.

    Returns:
        The signature, and the items that the graph gets for each request. The items are empty if
        clients send the inputs.
    """
    if not all(port.is_trigger for port in signature.inputs):
        return signature, {}
    outputs = tuple(replace(port, is_batched=False) for port in signature.outputs)
    return Signature((), outputs), {port.name: [None] for port in signature.inputs}


def is_whole(port: GraphPort, array: Array) -> bool:
    """Tells whether an array without axes is a single value for all rows of a request.

    This is true if the model's input has no batch axis (a threshold), or if the model checks the
    shapes itself.
    """
    tensor = port.tensor
    return (
        not array.ndim
        and tensor is not None
        and port.is_batched
        and (tensor.is_batched is False or not tensor.is_shape_checked)
    )


def rows_of(signature: Signature, arrays: Mapping[str, Array]) -> int:
    """Returns the number of items that `items_of` would return, without cutting the arrays.

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
    """Joins the result buffers of an output.

    Args:
        port: The output.
        buffers: The result buffers, without errors.

    Returns:
        An array, ``(buffers, ...)`` if the output is batched. A list if the output is not declared
        numeric and its items are no arrays, or have different shapes.

    Raises:
        Problem: the output is declared numeric, and its items have different shapes.
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
    """Returns the result buffers of an output as an array, or None.

    The result is None if a buffer has an error, or if the values are not numbers of one shape.
    """
    data = []
    for buffer in buffers:
        if buffer.error is not None:
            return None
        data.append(buffer.data)
    first = data[0]
    if len(set(map(type, data))) > 1 or not isinstance(first, np.ndarray | np.generic | float):
        return None
    if isinstance(first, str | bytes):  # NumPy strings, whose array would be padded to the longest
        return None
    if isinstance(first, np.ndarray):
        for one in data:
            if one.shape != first.shape or one.dtype != first.dtype:
                return None
    return np.array(data)


def columns_of(
    ports: Mapping[str, GraphPort], found: Mapping[str, Sequence[Buffer]]
) -> dict[str, Array | None]:
    """Returns `column_of` for each output, or None for an output without a batch axis."""
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
    """Returns the values of each request as `values_of` does, or its error.

    Args:
        ports: The outputs, by name.
        sizes: The number of rows of each request.
        found: For each output, a buffer for each row of the requests, in order.
        columns: The result of `columns_of` for these buffers.
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
    """Checks that no result buffer of an output has an error.

    Args:
        buffers: The result buffers of one request.
        rows: The number of rows of the request. For several rows, the message names the item.

    Raises:
        Problem: a buffer has an error.
    """
    for place, buffer in enumerate(buffers):
        if buffer.error is not None:
            item = place if rows > 1 else None
            raise problem_of(buffer.error, item)


def _whole(port: GraphPort, value: Any) -> Array | list[Any]:
    """Returns the value of the only buffer of an output that is not batched."""
    numbers = _numbers_of(port, [value])
    if numbers is not None:
        return numbers[0]
    return value if isinstance(value, list) else _array(value)


def _is_of_numbers(port: GraphPort) -> bool:
    return port.tensor is not None and not port.tensor.dtype.hasobject


def _numbers_of(port: GraphPort, values: Sequence[Any]) -> list[Array] | None:
    """Returns lists as arrays of the declared numeric type, or None if they are not numeric."""
    if not _is_of_numbers(port) or not all(isinstance(value, list | tuple) for value in values):
        return None
    assert port.tensor is not None  # `_is_of_numbers` has checked it
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
    """Returns a value that is no array as JSON, for protocols that transfer only arrays.

    Raises:
        ValueError: JSON cannot represent the value.
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
    """Checks that an array can be an item of an input.

    Raises:
        Problem: the shape does not match the input.
    """
    _check_fits(port, array.shape, "an item of shape" if port.is_batched else "the shape")


def _check_fits(port: GraphPort, given: tuple[int, ...], what: str) -> None:
    tensor = port.tensor
    if tensor is None or tensor.shape is None or not tensor.is_shape_checked:
        return
    wanted = tensor.shape
    fits = len(given) == len(wanted)
    if fits:  # a plain loop, because every request runs this code
        for length, own in zip(wanted, given, strict=True):
            if length is not None and length != own:
                fits = False
    if not fits:
        message = f"input {port.name!r}: got {what} {shape_text(given)}; expected "
        raise Problem(message + shape_text(wanted), Code.INVALID_ARGUMENT)


def describe_tensor(port: GraphPort) -> TensorSpec | None:
    """Returns the tensor of a port for clients, with the batch as axis 0, or None for any type."""
    tensor = port.tensor
    if tensor is None or not port.is_batched or tensor.shape is None:
        return tensor
    return TensorSpec(tensor.name, tensor.dtype, (None, *tensor.shape))


def as_tensor(value: Any) -> npt.NDArray[Any]:
    """Returns the values of an output as an array, with other values as JSON texts."""
    if isinstance(value, np.ndarray):
        return value
    texts = np.empty(len(value), dtype=object)
    texts[:] = [as_bytes(one) for one in value]
    return texts
