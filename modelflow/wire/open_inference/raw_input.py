"""A request over REST without a document: its body is the tensor of a model's only input."""

import math

from modelflow.wire.open_inference.infer import InferRequest, InferTensor
from modelflow.wire.problem import Problem
from modelflow.wire.raw_tensor import BF16, element_type, from_raw
from modelflow.wire.tensor import TensorSpec

__all__ = ["read_raw_input"]


def read_raw_input(body: bytes | memoryview, tensor: TensorSpec, datatype: str) -> InferRequest:
    """Reads a body that is nothing but the tensor of a model's only input.

    The request asks for outputs in binary, as Triton answers it.

    Args:
        body: Its bytes; of ``BYTES`` one element, without its length.
        tensor: The input, with the batch as axis 0. One axis at most may be free beside the batch,
            which is 1 then; without a shape it has one axis.
        datatype: What the protocol calls its type.

    Raises:
        Problem: the bytes are of no such shape.
    """
    where = f"raw input {tensor.name!r}"
    shape: list[int | None] = [None] if tensor.shape is None else list(tensor.shape)
    if datatype == "BYTES":
        text = bytes(body)
        fixed = tuple(1 if extent is None else extent for extent in shape)
        if math.prod(fixed) != 1:
            message = f"{where}: a raw body is one element; the input has shape {list(fixed)}"
            raise Problem(message)
        array = from_raw(len(text).to_bytes(4, "little") + text, datatype, fixed, where)
    else:
        if shape.count(None) > 1 and shape[0] is None:
            shape[0] = 1
        width = 2 if datatype == BF16 else element_type(datatype, where).itemsize
        known = math.prod(extent for extent in shape if extent is not None) * width
        if shape.count(None) > 1:
            message = f"{where}: shape {shape} has several free axes; send it with a JSON document"
            raise Problem(message)
        rest = len(body) // known if known else 0
        array = from_raw(
            body, datatype, tuple(rest if extent is None else extent for extent in shape), where
        )
    inputs = {tensor.name: InferTensor(tensor.name, datatype, array)}
    return InferRequest(inputs, parameters={"binary_data_output": True})
