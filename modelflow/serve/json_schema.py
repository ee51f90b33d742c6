"""The JSON of a model's inputs and outputs, described as JSON Schema says it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from modelflow.graph.graph_port import GraphPort
from modelflow.serve.tensors import served_tensor
from modelflow.wire.datatype import datatype_of
from modelflow.wire.tensor import TensorSpec

__all__ = [
    "Schema",
    "example_of",
    "infer_schema",
    "item_schema",
    "items_of",
    "object_of",
    "outputs_of",
]

Schema = Mapping[str, Any]

_B64: Schema = {
    "type": "object",
    "description": "bytes, in base64",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
}
_TEXT: Schema = {"oneOf": [{"type": "string"}, _B64]}
_FORMATS = {"float32": "float", "float64": "double", "int32": "int32", "int64": "int64"}
_PARAMETERS: Schema = {"type": "object", "additionalProperties": True}


def item_schema(port: GraphPort) -> Schema:
    """Returns one item of a port."""
    return _described(_nested(port.tensor), port)


def items_of(port: GraphPort) -> Schema:
    """Returns what a port takes of a whole request: with the batch as axis 0 where it has one."""
    return _described(_nested(served_tensor(port)), port)


def object_of(schemas: Mapping[str, Schema]) -> Schema:
    """Returns an object that has each of some keys, and no others."""
    return {
        "type": "object",
        "properties": dict(schemas),
        "required": [*schemas],
        "additionalProperties": False,
    }


def infer_schema(ports: Iterable[GraphPort]) -> Schema:
    """Returns the list of tensors that a request to infer holds, or an answer."""
    return {"type": "array", "items": {"anyOf": [_tensor(port) for port in ports]}, "minItems": 1}


def outputs_of(ports: Sequence[GraphPort], schema: Mapping[str, Schema]) -> Schema:
    """Returns the value of the only port, or an object of the values of several."""
    return schema[ports[0].name] if len(ports) == 1 else object_of(schema)


def example_of(tensor: TensorSpec | None) -> Any:
    """Returns zeros of a shape as JSON, a free axis of one."""
    if tensor is None or tensor.dtype == object:
        value: Any = "text"
    else:
        value = False if tensor.dtype.kind == "b" else 0.0 if tensor.dtype.kind == "f" else 0
    for extent in reversed((tensor.shape or ()) if tensor is not None else ()):
        value = [value] * (1 if extent is None else extent)
    return value


def _described(schema: Schema, port: GraphPort) -> Schema:
    return {**schema, "description": port.description} if port.description else schema


def _tensor(port: GraphPort) -> Schema:
    tensor = served_tensor(port)
    axes = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    known: dict[str, Schema] = {
        "name": {"const": port.name},
        "shape": axes,
        "datatype": {"type": "string"} if tensor is None else {"const": datatype_of(tensor.dtype)},
        "data": {"type": "array", "description": "nested as the shape says, or flat"},
        "parameters": _PARAMETERS,
    }
    if tensor is not None and tensor.shape is not None:
        known["shape"] = {
            "type": "array",
            "prefixItems": [
                {"type": "integer", "minimum": 0} if extent is None else {"const": extent}
                for extent in tensor.shape
            ],
            "minItems": len(tensor.shape),
            "maxItems": len(tensor.shape),
        }
    required = ["name", "shape", "datatype"]
    return _described({"type": "object", "properties": known, "required": required}, port)


def _nested(tensor: TensorSpec | None) -> Schema:
    if tensor is None:
        return {}
    if tensor.shape is None:
        return {"description": f"{datatype_of(tensor.dtype)} of any shape"}
    schema = _element(tensor.dtype)
    for extent in reversed(tensor.shape):
        length = {} if extent is None else {"minItems": extent, "maxItems": extent}
        schema = {"type": "array", "items": schema, **length}
    return schema


def _element(dtype: np.dtype[Any]) -> Schema:
    if dtype.kind == "O":
        return _TEXT
    if dtype.kind == "b":
        return {"type": "boolean"}
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        bounds = {"minimum": int(info.min), "maximum": int(info.max)}
        form = {"format": _FORMATS[dtype.name]} if dtype.name in _FORMATS else {}
        return {"type": "integer", **bounds, **form}
    return {"type": "number", "format": _FORMATS.get(dtype.name, "float")}
