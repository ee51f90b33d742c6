"""Infer requests over gRPC: ``ModelInferRequest`` to arrays, arrays to ``ModelInferResponse``."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

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
from modelflow.wire.proto import OPEN_INFERENCE
from modelflow.wire.raw_tensor import element_type, from_raw, plain_numbers, to_raw
from modelflow.wire.tensor import check_shape

# The field of each type's values, and the type of that field. FP16 and BF16 have no field.
_FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "BOOL": ("bool_contents", "?"),
        "UINT8": ("uint_contents", "u4"),
        "UINT16": ("uint_contents", "u4"),
        "UINT32": ("uint_contents", "u4"),
        "UINT64": ("uint64_contents", "u8"),
        "INT8": ("int_contents", "i4"),
        "INT16": ("int_contents", "i4"),
        "INT32": ("int_contents", "i4"),
        "INT64": ("int64_contents", "i8"),
        "FP32": ("fp32_contents", "f4"),
        "FP64": ("fp64_contents", "f8"),
        "BYTES": ("bytes_contents", "O"),
    }
)


def infer_request(message: Any, read_region: ReadRegion | None = None) -> InferRequest:
    """Converts a ``ModelInferRequest`` to an `InferRequest`.

    Args:
        message: The message.
        read_region: Returns the bytes of an input in shared memory. None to refuse such inputs.

    Raises:
        Problem: The data of a tensor do not fit its type and shape.
    """
    raw = list(message.raw_input_contents)
    shared = [one for one in message.inputs if one.parameters and IN_REGION in one.parameters]
    count = len(message.inputs) - len(shared)
    if raw and len(raw) != count:
        for tensor in message.inputs:
            if tensor.HasField("contents"):
                _refuse_contents(tensor, message.model_name)
        refuse(
            f"raw_input_contents: {len(raw)} tensors for {count} inputs; expected one for each, or "
            "none"
        )
    given = iter(raw)
    inputs: dict[str, InferTensor] = {}
    for tensor in message.inputs:
        name = tensor.name
        if name in inputs:
            refuse(f"input {shorten(name)}: given twice; expected once")
        if tensor in shared:
            read = read_region or refuse_region
            data = read(_plain(tensor.parameters), f"input {shorten(name)}")
            inputs[name] = _tensor(tensor, data, message.model_name)
        else:
            inputs[name] = _tensor(tensor, next(given) if raw else None, message.model_name)
    return InferRequest(
        inputs=inputs,
        outputs={
            one.name: RequestedOutput.of(one.name, _plain(one.parameters))
            for one in message.outputs
        }
        if message.outputs
        else {},
        id=message.id,
        parameters=_plain(message.parameters) if message.parameters else {},
        model_name=message.model_name,
        model_version=message.model_version,
    )


def infer_message(answer: InferAnswer) -> Any:
    """Returns an answer as a ``ModelInferResponse``, with its tensors in ``raw_output_contents``.

    Raises:
        Problem: An output has no form as bytes.
    """
    message = OPEN_INFERENCE["inference.ModelInferResponse"](
        model_name=answer.model_name, model_version=answer.model_version, id=answer.id
    )
    if answer.parameters:
        _fill(message.parameters, answer.parameters)
    for output in answer.outputs:
        tensor = message.outputs.add(name=output.name, datatype=output.datatype)
        tensor.shape.extend(output.array.shape)
        if output.parameters:
            _fill(tensor.parameters, output.parameters)
        is_elsewhere = IN_REGION in output.parameters
        where = f"output {output.name!r}"
        raw = b"" if is_elsewhere else to_raw(output.array, output.datatype, where)
        message.raw_output_contents.append(raw)
    return message


def _tensor(tensor: Any, raw: bytes | None, model: str) -> InferTensor:
    if raw is not None and not tensor.HasField("contents"):
        plain = plain_numbers(raw, tensor.datatype, tuple(tensor.shape))
        if plain is not None:
            parameters = _plain(tensor.parameters) if tensor.parameters else {}
            return InferTensor(tensor.name, tensor.datatype, plain, parameters)
    where = f"input {shorten(tensor.name)}"
    dtype = element_type(tensor.datatype, where)
    shape = check_shape(list(tensor.shape), where)
    if raw is None:
        array = _of_contents(tensor, dtype, shape, where)
    elif tensor.HasField("contents"):
        _refuse_contents(tensor, model)
    else:
        array = from_raw(raw, tensor.datatype, shape, where)
    return InferTensor(tensor.name, tensor.datatype, array, _plain(tensor.parameters))


def _refuse_contents(tensor: Any, model: str) -> NoReturn:
    """Refuses an input with values in both places, in the words of Triton."""
    refuse(
        "contents field must not be specified when using raw_input_contents for "
        f"{shorten(tensor.name)} for model {shorten(model)}; expected one of them"
    )


def _of_contents(
    tensor: Any, dtype: np.dtype[Any], shape: tuple[int, ...], where: str
) -> npt.NDArray[Any]:
    if tensor.datatype not in _FIELDS:
        refuse(f"{where}: {tensor.datatype} in contents; expected it in raw_input_contents")
    field, stored = _FIELDS[tensor.datatype]
    other = next((one.name for one, _ in tensor.contents.ListFields() if one.name != field), None)
    if other is not None:
        refuse(f"{where}: values in {other}; expected {field} for {tensor.datatype}")
    values = getattr(tensor.contents, field)
    if len(values) != math.prod(shape):
        refuse(
            f"{where}: {len(values)} values in {field}; expected {math.prod(shape)} for shape "
            f"{list(shape)}"
        )
    if dtype.kind == "O":
        array = np.empty(len(values), np.object_)
        array[:] = list(values)
        return array.reshape(shape)
    # All values at once, because protobuf exposes its memory. One by one they would cost a hundred
    # times as much. An older protobuf does not expose it, and NumPy then needs the type.
    held = np.asarray(values, stored)
    if dtype.kind in "iu" and held.size:
        info = np.iinfo(dtype)
        if held.min() < info.min or held.max() > info.max:
            refuse(
                f"{where}: a value beyond {info.min} to {info.max}, the range of {tensor.datatype}"
            )
    return held.astype(dtype).reshape(shape)  # copied: the message may go away before the array


def _plain(parameters: Any) -> Parameters:
    plain = {}
    for name in parameters:
        choice = parameters[name].WhichOneof("parameter_choice")
        plain[name] = getattr(parameters[name], choice) if choice else None
    return plain


def _fill(parameters: Any, plain: Parameters) -> None:
    for name, value in plain.items():
        if isinstance(value, bool):
            parameters[name].bool_param = value
        elif isinstance(value, int):
            parameters[name].int64_param = value
        elif isinstance(value, float):
            parameters[name].double_param = value
        else:
            parameters[name].string_param = str(value)
