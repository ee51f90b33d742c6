"""What a client will see of a model, as text, with a call to try."""

import json
from collections.abc import Iterator
from urllib.parse import quote

from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.serve.json_schema import example_of
from modelflow.serve.tensors import served_tensor
from modelflow.wire.datatype import datatype_of
from modelflow.wire.tensor import TensorSpec, shape_text

__all__ = ["description"]

_MOST = 16  # elements that are written out


def description(name: str, version: int, signature: Signature, address: str) -> str:
    """Returns lines for people: inputs, outputs, and a call with ``curl``.

    Args:
        name: What clients call the model.
        version: Which version it is.
        signature: What it takes and gives.
        address: Where it is served: ``http://127.0.0.1:8501``.
    """
    return "\n".join(_lines(name, version, signature, address))


def _lines(name: str, version: int, signature: Signature, address: str) -> Iterator[str]:
    yield f"{name}, version {version}"
    for side, ports in (("input", signature.inputs), ("output", signature.outputs)):
        for port in ports:
            meaning = f"  {port.description}" if port.description else ""
            yield f"  {side:<6} {port.name}: {_type_text(port)}{meaning}"
    yield f"  {_call(name, signature, address)}"


def _type_text(port: GraphPort) -> str:
    tensor = served_tensor(port)
    if tensor is None:
        return "any type"
    shape = "" if tensor.shape is None else f" {shape_text(tensor.shape)}"
    labels = f", {len(port.labels)} labels" if port.labels else ""
    return f"{datatype_of(tensor.dtype)}{shape}{labels}"


def _call(name: str, signature: Signature, address: str) -> str:
    """A request for one item: written out if it is short, else from a file."""
    model = f"{address}/v2/models/{quote(name)}"
    one = signature.inputs[0] if len(signature.inputs) == 1 else None
    if one is not None and (one.tensor is None or one.tensor.dtype == object):
        return (
            f"curl --data-binary @FILE -H 'Content-Type: application/octet-stream' {model}/generate"
        )
    if all(_is_short(port.tensor) for port in signature.inputs):
        items = {port.name: example_of(port.tensor) for port in signature.inputs}
        return f"curl -d '{json.dumps(items)}' {model}/generate"
    if one is not None:
        return f"curl --data-binary @FILE -H 'Inference-Header-Content-Length: 0' {model}/infer"
    return f"curl -d @FILE {model}/generate"


def _is_short(tensor: TensorSpec | None) -> bool:
    elements = 1
    for extent in (tensor.shape or ()) if tensor is not None else ():
        elements *= extent or 1
    return elements <= _MOST
