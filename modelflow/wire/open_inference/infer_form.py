"""Splits infer requests of one numeric tensor into form and data, because clients repeat the form.

``{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[0.5,1]}]}`` has the data
``[0.5,1]``. The text before and after the data is the form, which is parsed once. A document made
of a parsed form and valid JSON data means the same as the whole document.
"""

import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from modelflow.wire.json_outline import JsonLimits, check_limits
from modelflow.wire.json_reader import read_json
from modelflow.wire.json_to_array import array_of
from modelflow.wire.open_inference.infer import InferRequest, InferTensor
from modelflow.wire.open_inference.infer_json import read_document, read_infer
from modelflow.wire.problem import Problem, refuse
from modelflow.wire.raw_tensor import element_type, from_raw
from modelflow.wire.tensor import check_shape

_DATA = re.compile(rb'"data"\s*:\s*(?=\[)')
# A number that no client sends. In a form it marks the place of the data.
_MARK = secrets.randbits(62)
# The bytes of one number, shared by all elements of a form.
_ZERO = bytes(8)
# The most bytes of a form. Forms of any client are cached.
_LONGEST = 2 << 10


class CutRequest(NamedTuple):
    """A request whose data are not parsed yet.

    Attributes:
        form: The request, with zeros in its only tensor.
        tensor: The only tensor of the form.
        data: The elements: the bytes of a tensor in binary, nested lists, or a flat list.
    """

    form: InferRequest
    tensor: InferTensor
    data: Any

    @property
    def kind(self) -> tuple[Any, ...]:
        """A key that is equal for requests that `join_data` can join."""
        data, array = self.data, self.tensor.array
        style = type(data) if isinstance(data, bytes) or not data else type(data[0]) is list
        return style, self.tensor.name, self.tensor.datatype, array.shape[1:]


def cut_infer(body: bytes, header_length: int | None, limits: JsonLimits) -> CutRequest | None:
    """Splits a small body into form and data, or returns None for a body that needs `read_infer`.

    Args:
        body: The whole body.
        header_length: The number of bytes of the document. None if the body is the document.
        limits: The limits of the document.
    """
    data: Any
    try:
        if header_length is None:
            found = _DATA.search(body)
            if found is None:
                return None
            start = found.end()
            depth = len(body) - start - len(body[start:].lstrip(b"["))
            closed = body.find(b"]" * depth, start)
            end = len(body) if closed < 0 else closed + depth
            if len(body) - (end - start) > _LONGEST:
                return None
            form = _read_form(body[:start], body[end:], limits)
            check_limits(body, limits)
            data = read_json(body[start:end], limits)
        elif header_length > _LONGEST:
            return None
        else:
            data = body[header_length:]
            form = _read_form(body[:header_length], len(data), limits)
    except Problem:
        return None
    return None if form is None else CutRequest(form, next(iter(form.inputs.values())), data)


@lru_cache(maxsize=256)
def _read_form(before: bytes, behind: bytes | int, limits: JsonLimits) -> InferRequest | None:
    """Reads a document with zeros as data, or returns None if its form is not supported.

    Supported is a single tensor of numbers with at least one axis and one element.

    Args:
        before: The document up to the data.
        behind: The rest of the document. For a tensor in binary the number of its bytes.
        limits: The limits of the document.

    Raises:
        Problem: The document is no request.
    """
    if isinstance(behind, int):
        form = read_infer(before + bytes(behind), len(before), limits)
    else:
        document = read_json(b"%b[%d]%b" % (before, _MARK, behind), limits)
        try:
            (part,) = document["inputs"]
            if part["data"] != [_MARK]:
                return None
            shape, dtype = (
                check_shape(part["shape"], "data"),
                element_type(part["datatype"], "data"),
            )
            part["data"] = np.ndarray(shape, dtype, _ZERO, strides=[0] * len(shape))
        except (KeyError, TypeError, ValueError):  # not exactly one input with shape and numbers
            return None
        form = read_document(document, memoryview(b""))
    if len(form.inputs) != 1:
        return None
    (tensor,) = form.inputs.values()
    is_of_rows = tensor.array.dtype.kind in "biuf" and tensor.array.ndim and tensor.array.size
    return form if is_of_rows else None


def join_data(requests: Sequence[CutRequest]) -> npt.NDArray[Any]:
    """Joins the rows of requests with equal `CutRequest.kind`, in the order of the requests.

    Raises:
        Problem: The data of a request do not fit its form.
    """
    first = requests[0].tensor
    dtype, row = first.array.dtype, first.array.shape[1:]
    if isinstance(requests[0].data, bytes):
        rows = sum([len(one.tensor.array) for one in requests])
        data = b"".join([one.data for one in requests])
        return from_raw(data, first.datatype, (rows, *row), "data")
    values = [*chain.from_iterable([one.data for one in requests])]
    array = array_of(values, dtype, "data", takes_b64=False)
    is_flat = array.ndim == 1
    for one in requests:
        zeros = one.tensor.array
        if len(one.data) != (zeros.size if is_flat else len(zeros)):
            refuse("data: the number of elements does not fit the shape")
    if not is_flat and array.shape[1:] != row:
        refuse("data: the nesting does not fit the shape; expected this nesting, or a flat list")
    return array.reshape(-1, *row) if is_flat else array
