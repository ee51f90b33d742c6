"""Predict requests over REST: converts a document to arrays, and arrays to the answer.

Row format is ``{"instances": [...]}``, answered with ``{"predictions": [...]}``; column format is
``{"inputs": ...}``, answered with ``{"outputs": ...}``.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_reader import read_json
from modelflow.wire.json_to_array import array_of, is_b64, json_type
from modelflow.wire.json_writer import array_json, b64, json_of, row_texts
from modelflow.wire.problem import Code, refuse, shorten

try:
    import orjson
except ImportError:  # an extra: `read_predict` reads each body then
    orjson = None

_NUMBERS = "biuf"  # kinds of element types

Types = Mapping[str, "np.dtype[Any] | None"]
"""The element types of a model's inputs, by name. None for an input of any type."""


def read_predict(
    body: bytes | memoryview, limits: JsonLimits | None = None
) -> tuple[str, bool, Any]:
    """Reads the body of ``:predict`` before the model's inputs are known.

    Returns:
        Three values: the signature (empty for the default one), whether the request and its answer
        are in row format, and the value of ``instances`` or ``inputs``.

    Raises:
        Problem: The body is no JSON, or has not the form of a request.
    """
    document = read_object(body, limits)
    name = signature_name(document) if "signature_name" in document else ""
    has_rows, has_columns = "instances" in document, "inputs" in document
    if has_rows and has_columns:
        refuse(
            "JSON Value: Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist"
        )
    if has_columns:
        return name, False, document["inputs"]
    if not has_rows:
        refuse("Missing 'inputs' or 'instances' key")
    rows = document["instances"]
    if not isinstance(rows, (list, np.ndarray)):
        refuse(f"JSON Value: Excepting 'instances' to be an list/array; it is {json_type(rows)}")
    if not len(rows):
        refuse("JSON Value: No values in 'instances' array")
    return name, True, rows


def read_rows(bodies: Sequence[bytes]) -> list[list[Any] | None]:
    """Reads small bodies of ``:predict`` that contain only rows without names.

    Returns:
        The rows of each body. None for a body that needs `read_predict`: it has other contents or
        is no JSON.
    """
    if orjson is None:
        return [None] * len(bodies)
    found: list[list[Any] | None] = []
    for body in bodies:
        rows = None
        try:
            document = orjson.loads(body)
        except ValueError:
            pass  # `read_predict` raises the error, or accepts texts that orjson refuses
        else:
            # A single colon excludes duplicate keys. orjson merges them, but the limits count both.
            if type(document) is dict and len(document) == 1 and body.count(b":") == 1:
                given = document.get("instances")
                if type(given) is list and given:
                    rows = given
        found.append(rows)
    return found


def rows_answers(
    outputs: Mapping[str, npt.NDArray[Any] | None], sizes: Sequence[int]
) -> list[bytes] | None:
    """Writes the answers of several requests, equal to the results of `predict_answer`.

    Args:
        outputs: Numbers, with the rows of all requests on axis 0. None for an output without array.
        sizes: The number of rows of each request.

    Returns:
        The answers. None if only `predict_answer` can write them.
    """
    if len(outputs) != 1:
        return None
    (array,) = outputs.values()
    if array is None or not array.size or not array.ndim or array.dtype.kind not in _NUMBERS:
        return None
    opened, closed = b"[" * (array.ndim - 1), b"]" * (array.ndim - 1)
    between = closed + b"," + opened
    texts = iter(row_texts(array))
    before, behind = b'{"predictions":[' + opened, closed + b"]}"
    return [before + between.join(islice(texts, size)) + behind for size in sizes]


def read_object(body: bytes | memoryview, limits: JsonLimits | None) -> dict[str, Any]:
    """Reads a body that must be a JSON object, and ignores bytes after the object.

    Raises:
        Problem: The body is no object.
    """
    document = read_json(body, limits, takes_rest=True)
    if not isinstance(document, dict):
        refuse(f"JSON Value: Is not object; it is {json_type(document)}")
    return document


def signature_name(document: Mapping[str, Any]) -> str:
    """Returns the signature that a request's document names, or an empty text.

    Raises:
        Problem: The name is no text.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        refuse(
            f"JSON Value: {shorten(name)} not formatted correctly. 'signature_name' key must be a "
            "string value."
        )
    return name


def predict_answer(outputs: Mapping[str, npt.NDArray[Any]], *, is_row: bool) -> bytes:
    """Returns the document that answers a request.

    Args:
        outputs: The model's outputs. Bytes are written as ``b64`` if the output's name ends in
            ``_bytes``, else as text.
        is_row: Whether the request is in row format. Axis 0 of every output then counts the
            instances.

    Raises:
        Problem: Outputs differ in length in row format, or an output has no form in JSON.
    """
    if not is_row:
        texts = {name: _text(name, array) for name, array in outputs.items()}
        return b'{"outputs":' + _one_or_object(texts) + b"}"
    if len(outputs) == 1:  # a shortcut: the code below is for several outputs
        ((name, array),) = outputs.items()
        if array.ndim:
            text = array_json(array) if array.dtype.kind in _NUMBERS else _text(name, array)
            return b'{"predictions":' + text + b"}"
    lengths = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    for name, length in lengths.items():
        if length is None:
            refuse(f"Tensor name: {name} has no shape information; ask with 'inputs' (columns)")
        expected = next(iter(lengths.values()))
        if length != expected:
            refuse(
                f"Tensor name: {name} has inconsistent batch size: {length} expecting: {expected}; "
                "ask with 'inputs' (columns)"
            )
    rows = zip(*([_text(name, row) for row in rows] for name, rows in outputs.items()), strict=True)
    objects = (_one_or_object(dict(zip(outputs, row, strict=True))) for row in rows)
    return b'{"predictions":[' + b",".join(objects) + b"]}"


def arrays_of_rows(rows: Any, inputs: Types) -> dict[str, npt.NDArray[Any]]:
    """Converts the value of ``instances`` to an array for each input of the model.

    Axis 0 counts the instances.

    Raises:
        Problem: The value does not fit the inputs, or a name is no input.
    """
    if not inputs:
        refuse("The signature takes no inputs, so there are no instances; ask with 'inputs': {}")
    if not (isinstance(rows[0], dict) and _is_object(rows[0])):
        if len(inputs) > 1:
            refuse(
                "instances is a plain list, but expecting list of objects as multiple input "
                f"tensors required as per tensorinfo_map ({', '.join(inputs)})"
            )
        # An array contains no objects. A look at each number would cost more than all other checks.
        has_objects = isinstance(rows, list) and dict in set(map(type, rows))
        for at, row in enumerate(rows if has_objects else ()):
            if _is_object(row):
                refuse(f"Expecting value/list but got object at item {at} of input list")
        ((name, dtype),) = inputs.items()
        return {name: array_of(rows, dtype, f"'instances' (input {name!r})")}
    for at, row in enumerate(rows):
        if not _is_object(row):
            refuse(f"Expecting object but got list at item {at} of input list")
        if row.keys() != inputs.keys():
            refuse(
                f"Failed to process element: {at} of 'instances' list. JSON object: keys must be "
                f"equal to: {','.join(sorted(inputs))}; they are {shorten(sorted(row))}"
            )
    return {
        name: _stack([row[name] for row in rows], dtype, f"'instances' (input {name!r})")
        for name, dtype in inputs.items()
    }


def _stack(values: list[Any], dtype: np.dtype[Any] | None, where: str) -> npt.NDArray[Any]:
    """Stacks the values of all rows to one array; a large document has arrays among the values."""
    if not isinstance(values[0], np.ndarray):
        return array_of(values, dtype, where)
    arrays = [array_of(value, dtype, f"{where}[{at}]") for at, value in enumerate(values)]
    for at, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            refuse(
                f"Failed to process element: {at} of {where}: Expecting shape "
                f"{list(arrays[0].shape)} but got: {list(array.shape)}"
            )
    return np.stack(arrays)


def arrays_of_columns(value: Any, inputs: Types) -> dict[str, npt.NDArray[Any]]:
    """Converts the value of ``inputs`` to an array for each input of the model.

    Names that are no inputs are ignored, as TensorFlow Serving does.

    Raises:
        Problem: The value does not fit the inputs.
    """
    if not _is_object(value):
        if not inputs:
            refuse("inputs is a value/list, but the signature takes no inputs; expecting {}")
        if len(inputs) > 1:
            refuse(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                f"required as per tensorinfo_map ({', '.join(inputs)})"
            )
        ((name, dtype),) = inputs.items()
        return {name: array_of(value, dtype, f"'inputs' (input {name!r})")}
    for name in inputs:
        if name not in value:
            refuse(f"Missing named input: {name} in 'inputs' object.")
    return {name: array_of(value[name], dtype, f"input {name!r}") for name, dtype in inputs.items()}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_b64(value)


def _text(name: str, array: Any) -> bytes:
    array = np.asarray(array, None if isinstance(array, (np.ndarray, np.generic)) else np.object_)
    if array.dtype.kind in "OS" and name.endswith("_bytes"):
        held = np.empty(array.shape, np.object_)
        held[...] = np.frompyfunc(_b64_of, 1, 1)(array)
        return json_of(held.tolist())
    return array_json(array, f"output {name!r}")


def _b64_of(item: Any) -> dict[str, str]:
    if not isinstance(item, (bytes, bytearray, memoryview)):
        refuse(
            f"output of type {type(item).__name__}; its name ends in _bytes: expected bytes",
            Code.INTERNAL,
        )
    return b64(bytes(item))


def _one_or_object(texts: Mapping[str, bytes]) -> bytes:
    if len(texts) == 1:
        return next(iter(texts.values()))
    return b"{" + b",".join(json_of(name) + b":" + text for name, text in texts.items()) + b"}"
