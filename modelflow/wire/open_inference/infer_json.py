"""Infer requests over REST: JSON documents with binary tensors, and bodies without a document.

``Inference-Header-Content-Length`` is the length of the document. The bytes after the document
belong to the inputs without ``data``, each with its ``binary_data_size``.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_reader import read_json
from modelflow.wire.json_to_array import array_of, json_type
from modelflow.wire.json_writer import array_json, json_of, row_texts
from modelflow.wire.open_inference.infer import (
    IN_REGION,
    InferAnswer,
    InferRequest,
    InferTensor,
    Parameters,
    ReadRegion,
    RequestedOutput,
    refuse_region,
)
from modelflow.wire.problem import refuse, shorten
from modelflow.wire.raw_tensor import BF16, element_type, from_raw, to_raw
from modelflow.wire.tensor import DATATYPES, TensorSpec, check_shape, datatype_of

T = TypeVar("T")


def read_infer(
    body: bytes | memoryview,
    header_length: int | None = None,
    limits: JsonLimits | None = None,
    read_region: ReadRegion | None = None,
) -> InferRequest:
    """Reads the body of a request.

    Args:
        body: The whole body. Tensors in binary become views on it.
        header_length: The number of bytes of the document. None if the body is the document.
        limits: The limits of the document.
        read_region: Returns the bytes of an input in shared memory. None to refuse such inputs.

    Raises:
        Problem: The body is no request, or a stated length is wrong.
    """
    view = memoryview(body)
    length = view.nbytes if header_length is None else header_length
    if not 0 < length <= view.nbytes:
        refuse(
            f"Inference-Header-Content-Length: {length}; the body has {view.nbytes} bytes; "
            "expected the length of their JSON document"
        )
    document = read_json(body if length == view.nbytes else view[:length], limits)
    return read_document(document, view[length:], read_region)


def read_document(
    document: Any, data: memoryview, read_region: ReadRegion | None = None
) -> InferRequest:
    """Reads the document of a request.

    Args:
        document: A result of `read_json`.
        data: The bytes after the document. Tensors in binary become views on them.
        read_region: See `read_infer`.

    Raises:
        Problem: The document is no request, or a stated length is wrong.
    """
    if not isinstance(document, dict):
        refuse(f"request: {json_type(document)}; expected a JSON object with 'inputs'")
    parts = _Parts(data, read_region or refuse_region)
    if "inputs" not in document:
        refuse("request: no 'inputs'; expected a list of the model's inputs")
    inputs = [_input(part, at, parts) for at, part in enumerate(_list(document, "inputs"))]
    parts.check_end()
    outputs = [_output(part, at) for at, part in enumerate(_list(document, "outputs"))]
    parameters: Parameters = _get(document, "parameters", {}, "request", "an object")
    wants_binary = parameters.get("binary_data_output", False)
    if type(wants_binary) is not bool:
        refuse(f"request: binary_data_output {shorten(wants_binary)}; expected true or false")
    return InferRequest(
        inputs={tensor.name: tensor for tensor in _once(inputs, "input")},
        outputs={output.name: output for output in _once(outputs, "output")},
        id=_get(document, "id", "", "request", "a text"),
        parameters=parameters,
    )


class _Parts:
    """The binary tensors after the document, in order."""

    def __init__(self, data: memoryview, read_region: ReadRegion) -> None:
        self._data = data
        self.read_region = read_region
        self._at = 0

    def take(self, size: object, where: str) -> memoryview:
        if type(size) is not int or size < 0:
            refuse(f"{where}: binary_data_size {shorten(size)}; expected a number of bytes")
        if size > self._data.nbytes - self._at:
            refuse(
                f"{where}: binary_data_size {size}; the body has {self._data.nbytes - self._at} "
                "bytes left behind its JSON document and the inputs before"
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def check_end(self) -> None:
        rest = self._data.nbytes - self._at
        if rest:
            refuse(
                f"request: {rest} bytes after the last input; expected as many as the "
                "binary_data_size of all inputs together"
            )


def _input(part: Any, at: int, parts: _Parts) -> InferTensor:
    name = _name(part, f"inputs[{at}]")
    where = f"input {shorten(name)}"
    for key in ("shape", "datatype"):
        if key not in part:
            refuse(f"{where}: no {key!r}; expected name, shape, datatype, and data")
    datatype = part["datatype"]
    dtype = element_type(datatype, where)
    shape = part["shape"]
    # A large document has its lists of integers as arrays.
    shape = check_shape(
        shape if isinstance(shape, list) else getattr(shape, "tolist", str)(), where
    )
    parameters: Parameters = _get(part, "parameters", {}, where, "an object")
    if IN_REGION in parameters and "data" not in part and "binary_data_size" not in parameters:
        data = parts.read_region(parameters, where)
        return InferTensor(name, datatype, from_raw(data, datatype, shape, where), parameters)
    is_binary = "binary_data_size" in parameters
    if is_binary == ("data" in part):
        refuse(
            f"{where}: {'both' if is_binary else 'neither of'} 'data' and binary_data_size; "
            "expected one of them"
        )
    if is_binary:
        taken = parts.take(parameters["binary_data_size"], where)
        return InferTensor(name, datatype, from_raw(taken, datatype, shape, where), parameters)
    if datatype == BF16:
        refuse(f"{where}: BF16 as JSON; expected it in binary (binary_data_size)")
    array = array_of(part["data"], dtype, where, takes_b64=False)
    return InferTensor(name, datatype, _shape(array, shape, where), parameters)


def _shape(array: npt.NDArray[Any], shape: tuple[int, ...], where: str) -> npt.NDArray[Any]:
    """Returns an array in its stated shape; the data may be nested in that shape or flat."""
    if array.shape == shape:
        return array
    if array.ndim != 1 or array.size != math.prod(shape):
        refuse(
            f"{where}: data of shape {list(array.shape)} ({array.size} values); expected shape "
            f"{list(shape)} ({math.prod(shape)} values), nested so or flat"
        )
    return array.reshape(shape)


def _output(part: Any, at: int) -> RequestedOutput:
    name = _name(part, f"outputs[{at}]")
    where = f"output {shorten(name)}"
    return RequestedOutput.of(name, _get(part, "parameters", {}, where, "an object"))


def _name(part: Any, where: str) -> str:
    if not isinstance(part, dict):
        refuse(f"{where}: {json_type(part)}; expected an object with 'name'")
    name = _get(part, "name", "", where, "a text")
    if not name:
        refuse(f"{where}: no 'name'; expected the name of a tensor")
    return name


def _list(document: dict[str, Any], key: str) -> list[Any]:
    return _get(document, key, [], "request", "a list of objects")


def _get(part: dict[str, Any], key: str, default: T, where: str, expected: str) -> T:
    """Returns a value of the type of ``default``, or ``default`` if the key is absent."""
    found = part.get(key, default)
    if isinstance(found, np.ndarray):  # a list of numbers in a large document
        found = found.tolist()
    if not isinstance(found, type(default)):
        refuse(f"{where}: {key!r} is {json_type(found)}; expected {expected}")
    return found


def _once(named: list[Any], kind: str) -> list[Any]:
    seen: set[str] = set()
    for one in named:
        if one.name in seen:
            refuse(f"{kind} {shorten(one.name)}: given twice; expected once")
        seen.add(one.name)
    return named


def infer_answer(answer: InferAnswer, request: InferRequest) -> tuple[bytes, int | None]:
    """Returns the body of an answer and the number of bytes of the document.

    The length is None if no output is in binary, because the body is then the document.

    Raises:
        Problem: An output has no form in JSON.
    """
    raw: list[bytes] = []
    outputs: list[bytes] = []
    for tensor in answer.outputs:
        parameters = dict(tensor.parameters)
        where = f"output {tensor.name!r}"
        data = b""
        if IN_REGION in parameters:
            pass  # its bytes are in shared memory already
        elif tensor.datatype == BF16 or request.is_binary(tensor.name):
            raw.append(to_raw(tensor.array, tensor.datatype, where))
            parameters["binary_data_size"] = len(raw[-1])
        else:
            data = b',"data":' + array_json(tensor.array.reshape(-1), where)
        head = _write_members(
            name=tensor.name, datatype=tensor.datatype, shape=tensor.array.shape
        ) + _write_parameters(parameters)
        outputs.append(b"{%b%b}" % (head, data))
    head = _write_members(model_name=answer.model_name, model_version=answer.model_version)
    head += _write_parameters(answer.parameters)
    return _join_answer(answer.id, head, outputs, raw)


def infer_answers(
    model_name: str,
    model_version: str,
    columns: Mapping[str, npt.NDArray[Any] | None],
    requests: Sequence[InferRequest],
    sizes: Sequence[int],
) -> list[tuple[bytes, int | None]] | None:
    """Writes the answers of several requests, equal to the results of `infer_answer`.

    Args:
        model_name: The model that answers.
        model_version: The version of the model.
        columns: Numbers for each output, with the rows of all requests on axis 0. None for an
            output of another type.
        requests: The requests.
        sizes: The number of rows of each request.

    Returns:
        The answers. None if only `infer_answer` can write them.
    """
    if any(output.classes for one in requests for output in one.outputs.values()):
        return None
    written = []
    for name, column in columns.items():
        if column is None or column.dtype.kind not in "biuf" or not column.size:
            return None
        datatype = datatype_of(column.dtype)
        if datatype not in DATATYPES:  # `infer_answer` refuses it in binary
            return None
        are_binary = [request.is_binary(name) for request in requests]
        texts = [] if all(are_binary) else row_texts(column.reshape(len(column), -1))
        data = to_raw(column, datatype, f"output {name!r}") if any(are_binary) else b""
        written.append((name, datatype, column.shape[1:], are_binary, texts, data))
    head = _write_members(model_name=model_name, model_version=model_version)
    answers, end, rows = [], 0, sum(sizes)
    for place, (request, size) in enumerate(zip(requests, sizes, strict=True)):
        start, end = end, end + size
        raw, outputs = [], []
        for name, datatype, shape, are_binary, texts, data in written:
            if request.outputs and name not in request.outputs:
                continue
            if are_binary[place]:
                width = len(data) // rows
                raw.append(data[start * width : end * width])
                more = b',"parameters":{"binary_data_size":%d}' % len(raw[-1])
            else:
                more = b',"data":[%b]' % b",".join(texts[start:end])
            members = _write_members(name=name, datatype=datatype, shape=(size, *shape))
            outputs.append(b"{%b%b}" % (members, more))
        answers.append(_join_answer(request.id, head, outputs, raw))
    return answers


def _join_answer(
    request_id: str, head: bytes, outputs: Sequence[bytes], raw: Sequence[bytes]
) -> tuple[bytes, int | None]:
    if request_id:
        head = b'"id":%b,%b' % (json_of(request_id), head)
    document = b'{%b,"outputs":[%b]}' % (head, b",".join(outputs))
    return b"".join([document, *raw]), len(document) if raw else None


@lru_cache(maxsize=256)  # the members of a model's answers repeat
def _write_members(**members: str | tuple[int, ...]) -> bytes:
    """Returns the members of a JSON object, without its braces."""
    return json_of(members)[1:-1]


def _write_parameters(parameters: Parameters) -> bytes:
    return b',"parameters":' + json_of(dict(parameters)) if parameters else b""


def read_raw_input(body: bytes | memoryview, tensor: TensorSpec, datatype: str) -> InferRequest:
    """Reads a body that is only the tensor of a model's single input.

    The request asks for outputs in binary, because Triton answers such a request so.

    Args:
        body: The bytes of the tensor. For ``BYTES`` a single element, without its length.
        tensor: The input, with the batch as axis 0. At most one more axis may be free, and the
            batch is then 1. An input without a shape has one axis.
        datatype: The protocol's name of the type.

    Raises:
        Problem: The number of bytes does not fit the shape.
    """
    where = f"raw input {tensor.name!r}"
    shape: list[int | None] = [None] if tensor.shape is None else list(tensor.shape)
    if datatype == "BYTES":
        text = bytes(body)
        fixed = tuple(1 if extent is None else extent for extent in shape)
        if math.prod(fixed) != 1:
            refuse(f"{where}: a raw body is one element; the input has shape {list(fixed)}")
        array = from_raw(len(text).to_bytes(4, "little") + text, datatype, fixed, where)
    else:
        if shape.count(None) > 1 and shape[0] is None:
            shape[0] = 1
        width = 2 if datatype == BF16 else element_type(datatype, where).itemsize
        known = math.prod(extent for extent in shape if extent is not None) * width
        if shape.count(None) > 1:
            refuse(f"{where}: shape {shape} has several free axes; send it with a JSON document")
        rest = len(body) // known if known else 0
        array = from_raw(
            body, datatype, tuple(rest if extent is None else extent for extent in shape), where
        )
    inputs = {tensor.name: InferTensor(tensor.name, datatype, array)}
    return InferRequest(inputs, parameters={"binary_data_output": True})
