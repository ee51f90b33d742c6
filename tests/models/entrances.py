"""The ways to call a model: each gives a function that sends one row, like one client."""

import base64
import contextlib
import json
import struct
from typing import Any

import grpc
import numpy as np
import pytest

from modelflow import Flow, Model
from modelflow.cli.main import main
from modelflow.wire.proto import OPEN_INFERENCE, TF_SERVING
from tests.serve.clients import send
from tests.serve.grpc.stub import PREDICTION
from tests.serve.half_plus_two import tensorflow

__all__ = ["LIBRARY", "SERVED", "RefusedError", "calls_of", "reason_of", "run"]

BATCHING = {"batch_size": 4, "batch_timeout_ms": 20, "threads": 2}
DATATYPES = {
    "bool": "BOOL",
    "bfloat16": "BF16",
    "object": "BYTES",
    **{
        f"{sign}int{bits}": f"{sign}INT{bits}".upper()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}
NUMPY = {datatype: name for name, datatype in DATATYPES.items()}


class RefusedError(Exception):
    """An error reply of a server."""


# -- in the program -------------------------------------------------------------------------------


@contextlib.contextmanager
def open_model(cell, is_with_others):
    """Yields a function that calls a `Model`, and a function for the largest batch."""
    options = {"signature": cell.kind.signature} if cell.kind.signature else {}
    with Model(cell.source, **(BATCHING if is_with_others else {}), **options) as model:

        def ask(row):
            found = model.infer({name: row[name] for name in model.inputs})
            return {
                name: as_batch(cell.kind, name, buffer.data)
                for name, buffer in zip(model.outputs, found, strict=True)
            }

        yield ask, lambda: max(model.stats().figures["engine_calls"])


@contextlib.contextmanager
def open_flow(cell, is_with_others):
    """Yields the same functions for a graph; a single client sends its row through `Flow.infer`."""
    with Flow(cell.graph) as flow:

        def ask(row):
            item = {f"in_{name}": value for name, value in row.items()}
            found = next(flow.map([item]))[1] if is_with_others else flow.infer(item)
            single = len(cell.kind.outputs) == 1
            return {
                name: as_batch(cell.kind, name, (found if single else found[f"out_{name}"]).data)
                for name in cell.kind.outputs
            }

        yield ask, lambda: max(flow.stats()["net"].figures["engine_calls"])


def as_batch(kind, name, data):
    """Returns an item as a batch of a single item, the form of the engine's own results."""
    array = np.array(data, object) if isinstance(data, str | bytes) else np.asarray(data)
    return array[np.newaxis] if kind.outputs[name].is_batched else array


LIBRARY = {"model": open_model, "flow": open_flow}


# -- as a command ---------------------------------------------------------------------------------


def run(cell, folder):
    """Runs ``modelflow run`` over all rows; returns the outputs of each, or its error.

    In this process: a process for each cell would import TensorFlow or PyTorch each time.
    """
    kind, words = cell.kind, ["run", str(cell.graph), "--full", "--quiet"]
    for name, port in kind.inputs.items():
        (folder / name).mkdir()
        for place, row in enumerate(kind.rows):
            save(folder / name / str(place), row[name], port)
        words += ["--input", f"in_{name}={folder / name}"]
    for name in kind.outputs:
        words += ["--output", f"out_{name}={folder / name}.jsonl"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    found: list[Any] = [{} for _ in kind.rows]
    for name, port in kind.outputs.items():
        for line in map(json.loads, (folder / f"{name}.jsonl").read_text().splitlines()):
            if "error" in line:
                found[line["index"]] = RefusedError(line["error"]["message"])
                continue
            value = of_run(line["data"])
            found[line["index"]][name] = read([value] if port.is_batched else value, port)
    assert ended.value.code == any(isinstance(one, RefusedError) for one in found)
    return found


def save(path, value, port):
    if port.dtype != "object":
        np.save(path.with_suffix(".npy"), value)
        return
    text = value.item()
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def of_run(value):
    """Decodes bytes, which a line shows as text if possible, and else by number."""
    if not isinstance(value, dict):
        return value
    return value["text"] if "text" in value else {"b64": value["base64"]}


# -- over the network -----------------------------------------------------------------------------


def predict(server, cell, row):
    """Calls TensorFlow Serving's REST: by rows if each port has a row, else by columns."""
    kind = cell.kind
    is_row = all(port.is_batched for port in (*kind.inputs.values(), *kind.outputs.values()))
    if is_row:
        values = {name: shown(row[name]) for name in kind.inputs}
        body: dict[str, Any] = {
            "instances": [values if len(values) > 1 else next(iter(values.values()))]
        }
    else:
        body = {"inputs": {name: shown(batch(kind, row, name)) for name in kind.inputs}}
    if kind.signature:
        body["signature_name"] = kind.signature
    status, _, text = send(server, "POST", f"/v1/models/{cell.name}:predict", json.dumps(body))
    if status != 200:
        raise RefusedError(text.decode())
    found = json.loads(text)
    if is_row:
        (prediction,) = found["predictions"]
        found = prediction if len(kind.outputs) > 1 else {next(iter(kind.outputs)): prediction}
        found = {name: [value] for name, value in found.items()}
    else:
        found = found["outputs"]
        found = found if len(kind.outputs) > 1 else {next(iter(kind.outputs)): found}
    ports = kind.outputs
    return {
        name: read(value, ports[name], not ports[name].is_batched) for name, value in found.items()
    }


def batch(kind, row, name):
    value = np.asarray(row[name])
    return value[np.newaxis] if kind.inputs[name].is_batched else value


def shown(value):
    """Returns a value in the form of JSON."""
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return shown(value.tolist()) if isinstance(value, np.ndarray | np.generic) else value


def read(value, port, before=0):
    """Returns an array from JSON: bytes as ``b64``, an empty list without further lengths.

    ``before``: the number of its axes before those of the port.
    """
    if port.dtype == "object":
        if isinstance(value, list):
            return np.array([read(one, port) for one in value], object)
        return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()
    array = np.array(value, port.dtype)
    rest = () if array.size else port.shape[array.ndim - before :]
    return array.reshape((*array.shape, *rest))


def infer(server, cell, row):
    """Calls Open Inference's REST, with binary tensors."""
    tensors, raws = tensors_of(cell.kind, row)
    for tensor, raw in zip(tensors, raws, strict=True):
        tensor["parameters"] = {"binary_data_size": len(raw)}
    document = {"inputs": tensors, "parameters": {"binary_data_output": True}}
    head, length = json.dumps(document).encode(), "Inference-Header-Content-Length"
    path = f"/v2/models/{cell.name}/infer"
    status, headers, body = send(
        server, "POST", path, head + b"".join(raws), {length: str(len(head))}
    )
    if status != 200:
        raise RefusedError(body.decode())
    size = int(headers[length.lower()])
    found, start = {}, size
    for tensor in json.loads(body[:size])["outputs"]:
        end = start + tensor["parameters"]["binary_data_size"]
        found[tensor["name"]] = array_of(body[start:end], tensor["datatype"], tensor["shape"])
        start = end
    return found


def tensors_of(kind, row):
    """Returns the descriptions of the inputs in Open Inference's form, and their bytes."""
    arrays = {name: batch(kind, row, name) for name in kind.inputs}
    tensors = [
        {"name": name, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape)}
        for name, array in arrays.items()
    ]
    return tensors, [raw_of(array) for array in arrays.values()]


def raw_of(array):
    if array.dtype != object:
        return array.tobytes()
    texts = [one.encode() if isinstance(one, str) else one for one in array.flat]
    return b"".join(struct.pack("<I", len(one)) + one for one in texts)


def array_of(raw, datatype, shape):
    if datatype != "BYTES":
        return np.frombuffer(raw, NUMPY[datatype]).reshape(shape)
    texts = []
    while raw:
        (length,) = struct.unpack_from("<I", raw)
        texts.append(raw[4 : 4 + length])
        raw = raw[4 + length :]
    return np.array(texts, object).reshape(shape)


def grpc_predict(server, cell, row):
    """Calls TensorFlow Serving's gRPC; TensorFlow itself writes and reads the tensors."""
    tf = tensorflow()
    message = TF_SERVING["tensorflow.serving.PredictRequest"]()
    message.model_spec.name, message.model_spec.signature_name = cell.name, cell.kind.signature
    for name in cell.kind.inputs:
        proto = tf.make_tensor_proto(batch(cell.kind, row, name))
        message.inputs[name].MergeFromString(proto.SerializeToString())
    answer = server.stub.call(PREDICTION, "Predict", message)
    kind_of = type(tf.make_tensor_proto(0))
    return {
        name: tf.make_ndarray(kind_of.FromString(one.SerializeToString()))
        for name, one in answer.outputs.items()
    }


def grpc_infer(server, cell, row):
    """Calls Open Inference's gRPC."""
    tensors, raws = tensors_of(cell.kind, row)
    message = OPEN_INFERENCE["inference.ModelInferRequest"](model_name=cell.name, inputs=tensors)
    message.raw_input_contents.extend(raws)
    answer = server.stub.oip("ModelInfer", message)
    return {
        one.name: array_of(raw, one.datatype, list(one.shape))
        for one, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
    }


SERVED = {
    "predict": predict,
    "infer": infer,
    "grpc_predict": grpc_predict,
    "grpc_infer": grpc_infer,
}


def calls_of(server, cell):
    """Returns the size of the largest batch that a served model has run."""
    _, _, text = send(server, "GET", f"/v2/models/{cell.name}/stats")
    (stats,) = json.loads(text)["model_stats"]
    return max(int(one["batch_size"]) for one in stats["batch_stats"])


def reason_of(error):
    """Returns the text of an error."""
    return error.details() if isinstance(error, grpc.RpcError) else str(error)
