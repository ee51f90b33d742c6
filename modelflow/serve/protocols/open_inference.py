"""The Open Inference Protocol over served models: what REST and gRPC have in common.

Whatever else a client asks for is refused with its name: an answer that leaves it out looks like
one that obeys it.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import modelflow
from modelflow.graph.graph_port import GraphPort
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.metrics.statistics import inference_statistics
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model, Terms
from modelflow.serve.requests.rows import as_tensor, describe_tensor
from modelflow.serve.requests.time_limits import earlier
from modelflow.wire.json_to_array import json_type
from modelflow.wire.open_inference.documents import ModelInfo, TensorInfo
from modelflow.wire.open_inference.infer import (
    InferAnswer,
    InferRequest,
    InferTensor,
    Parameters,
    classify,
)
from modelflow.wire.problem import Code, Problem, refuse, shorten, unknown_model
from modelflow.wire.tensor import datatype_of
from modelflow.wire.tf_serving.documents import State, VersionStatus

PLATFORM = "modelflow_graph"
"""What a model runs on, as the protocol calls it."""

_TYPES = {"BYTES": "TYPE_STRING"}  # the others have the names of the protocol's datatypes


def configuration(model: Model) -> dict[str, Any]:
    """Returns it by the names of an ``inference.ModelConfig``.

    Where an item of every input is a row, axis 0 is left out of all shapes, as Triton does, and
    ``max_batch_size`` is what one call of the model takes; a request may have more rows.
    """
    signature, batching = model.signature, model.batching
    ports = (*signature.inputs, *signature.outputs)
    is_batched = bool(signature.inputs) and all(port.is_batched for port in ports)
    found: dict[str, Any] = {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "modelflow",
        "max_batch_size": batching.most if is_batched else 0,
        "input": [_port(port, is_batched) for port in signature.inputs],
        "output": [_port(port, is_batched) for port in signature.outputs],
        "model_transaction_policy": {
            "decoupled": not all(port.is_single for port in signature.outputs)
        },
    }
    if is_batched:
        found["dynamic_batching"] = {
            "preferred_batch_size": list(batching.sizes),
            "max_queue_delay_microseconds": int(batching.seconds * 1e6),
        }
    return found


def _port(port: GraphPort, is_batched: bool) -> dict[str, Any]:
    tensor = port.tensor if is_batched else describe_tensor(port)
    if tensor is None:
        return {"name": port.name, "data_type": "TYPE_STRING", "dims": [] if is_batched else [-1]}
    name = datatype_of(tensor.dtype)
    dims = [-1] if tensor.shape is None else [-1 if n is None else n for n in tensor.shape]
    return {"name": port.name, "data_type": _TYPES.get(name, f"TYPE_{name}"), "dims": dims}


_SEQUENCE = "requests of a sequence are not kept together, each is answered by itself"

# Obeyed where they are read. A stream says of each answer whether it is the last one, asked or not.
_DONE_OF_REQUEST = frozenset(
    {"timeout", "binary_data_output", "triton_enable_empty_final_response"}
)
_DONE_OF_INPUT = frozenset({"binary_data_size"})
_DONE_OF_OUTPUT = frozenset({"binary_data", "classification"})

# Name -> the values that ask for nothing, and why no other is taken.
_NOT_DONE: Mapping[str, tuple[tuple[Any, ...], str]] = MappingProxyType(
    {
        "priority": ((0,), "requests are answered in the order in which they come"),
        "sequence_id": ((0, ""), _SEQUENCE),
        "sequence_start": ((False,), _SEQUENCE),
        "sequence_end": ((False,), _SEQUENCE),
    }
)


def check_parameters(request: InferRequest) -> None:
    """Checks that each parameter of a request, its inputs and its outputs is one that is obeyed.

    Raises:
        Problem: one is not; it names it.
    """
    if request.parameters:
        _check_each(request.parameters, _DONE_OF_REQUEST, "request")
    for name, tensor in request.inputs.items():
        if tensor.parameters:
            _check_each(tensor.parameters, _DONE_OF_INPUT, f"input {shorten(name)}")
    for name, output in request.outputs.items():
        if output.parameters:
            _check_each(output.parameters, _DONE_OF_OUTPUT, f"output {shorten(name)}")


def check_extras(extras: Parameters) -> None:
    """Checks what a ``generate`` request says beside the model's inputs.

    As in Triton these are parameters of the model's own, texts, numbers and booleans, such as
    ``temperature``; those of the protocol that are not done are refused here, too.

    Raises:
        Problem: one is refused, or is no text, number or boolean; it names it.
    """
    for name, value in extras.items():
        if name in _NOT_DONE:
            _check_default(name, value, "request")
        elif name.startswith("triton_"):
            refuse(f"request: parameter {shorten(name)} is not supported; leave it out")
        elif not isinstance(value, bool | int | float | str):
            refuse(
                f"request: {shorten(name)} is no input, and as a parameter {json_type(value)}; "
                "expected a text, a number, or a boolean"
            )


def _check_each(parameters: Parameters, done: frozenset[str], where: str) -> None:
    for name, value in parameters.items():
        if name in done:
            continue
        if name in _NOT_DONE:
            _check_default(name, value, where)
            continue
        known = ", ".join(sorted(done))
        refuse(
            f"{where}: parameter {shorten(name)} is not supported; expected {known}, or none; "
            "leave it out"
        )


def _check_default(name: str, value: Any, where: str) -> None:
    defaults, reason = _NOT_DONE[name]
    if isinstance(value, bool | int | str) and value in defaults:
        return
    refuse(
        f"{where}: parameter {name!r}: got {shorten(value)}; {reason}; "
        f"expected {' or '.join(map(repr, defaults))}; leave it out"
    )


SERVER = (
    "modelflow",
    modelflow.__version__,
    (
        "binary_tensor_data",
        "classification",
        "parameters",
        "model_configuration",
        "model_repository",
        "statistics",
    ),
)
"""What the server says of itself: its name, its version, and the extensions that it knows."""

# What the protocol calls the states of a version.
_STATES: Mapping[State, str] = MappingProxyType(
    {
        State.START: "LOADING",
        State.LOADING: "LOADING",
        State.AVAILABLE: "READY",
        State.UNLOADING: "UNLOADING",
        State.END: "UNAVAILABLE",
    }
)


def find_model(models: Models, name: str, version: str = "") -> Model:
    """Returns the model that a request names.

    Raises:
        Problem: there is none; with `Code.UNAVAILABLE`: it is being loaded.
    """
    try:
        return models.find(name, version)
    except Problem as problem:
        if problem.code is not Code.NOT_FOUND:
            raise
        raise unknown_model(name, version) from problem


def info_of(models: Models, model: Model) -> ModelInfo:
    """Returns what is said of a model: its versions, inputs and outputs."""
    versions = tuple(str(one.version) for one in models.versions(model.name))
    inputs, outputs = (
        tuple(TensorInfo.of(port.name, describe_tensor(port)) for port in ports)
        for ports in (model.signature.inputs, model.signature.outputs)
    )
    return ModelInfo(model.name, versions, PLATFORM, inputs, outputs)


def find_versions(models: Models, name: str = "", version: str = "") -> list[Model]:
    """Returns those versions of a model that answer, the newest first.

    Args:
        models: What is served.
        name: The model; empty: all.
        version: Only this version.

    Raises:
        Problem: there is no such model.
    """
    if not name:
        return list(models)
    if version:
        return [find_model(models, name, version)]
    find_model(models, name)
    return models.versions(name)


def statistics_of(models: Iterable[Model], found: Iterable[ModelSnapshot]) -> list[dict[str, Any]]:
    """Returns the figures of some models, in their order, of what was counted."""
    snapshots = {(snapshot.name, snapshot.version): snapshot for snapshot in found}
    known = [(model.name, model.version) for model in models]
    return [inference_statistics(snapshots[each]) for each in known if each in snapshots]


def index_of(models: Models, *, is_ready_alone: bool = False) -> list[dict[str, str]]:
    """Returns what is served, as the answer to a request for the repository's index lists it."""
    rows = [_row(*one) for one in models.index()]
    return [row for row in rows if not is_ready_alone or row["state"] == "READY"]


def no_parameters() -> Problem:
    """Returns what a request to load a model in another form is answered."""
    message = "load: parameters (config, files) are not supported; expected none"
    return Problem(message, Code.UNIMPLEMENTED)


def _row(name: str, status: VersionStatus | None, reason: str) -> dict[str, str]:
    if status is None:
        state = "LOADING" if reason == State.LOADING else "UNAVAILABLE"
        return {"name": name, "version": "", "state": state, "reason": reason}
    state, version = _STATES[status.state], str(status.version)
    return {"name": name, "version": version, "state": state, "reason": reason}


def infer(
    model: Model,
    request: InferRequest,
    done: Callable[[Inference], None],
    terms: Terms,
) -> Inference:
    """Sends a request to a model; ``done`` is called when it has an answer.

    Args:
        model: What is asked.
        request: What it is asked.
        done: Called on this thread, with what has the answer.
        terms: What it says beside; its parameter ``timeout`` may say less than the deadline.

    Raises:
        Problem: the request does not fit the model, or there are too many requests.
    """
    check_request(request, model)
    arrays = {name: tensor.array for name, tensor in request.inputs.items()}
    if request.parameters:
        terms = terms._replace(deadline=earlier(terms.deadline, _timeout(request)))
    return model.infer(arrays, done, terms)


def answer_of(model: Model, values: Mapping[str, Any], request: InferRequest) -> InferAnswer:
    """Returns the answer to a request: the outputs that it asks for, as arrays or as classes.

    Args:
        model: What has answered.
        values: What came out of each output.
        request: What it was asked.

    Raises:
        Problem: classes are wanted, and an output is no tensor of scores.
    """
    tensors = []
    for name, value in values.items():
        if not request.outputs or name in request.outputs:
            tensors.append(tensor_of(model.outputs[name], value, request))
    return InferAnswer(model.name, str(model.version), tuple(tensors), request.id)


def tensor_of(port: GraphPort, value: Any, request: InferRequest) -> InferTensor:
    """Returns what an output has given as a request wants it.

    Raises:
        Problem: classes are wanted, and it is no tensor of scores.
    """
    array = as_tensor(value)
    asked = request.outputs.get(port.name)
    if asked is not None and asked.classes:
        array = classify(array, asked.classes, port.labels, f"output {port.name!r}")
    return InferTensor(port.name, datatype_of(array.dtype), array)


def check_request(request: InferRequest, model: Model) -> None:
    """Checks that a model can do what a request asks for.

    Raises:
        Problem: an input is of another type, an output is none of the model's, or a parameter is
            not obeyed.
    """
    check_parameters(request)
    for name, tensor in request.inputs.items():
        wanted = model.types.get(name)
        if wanted is not None and tensor.datatype != datatype_of(wanted):
            refuse(
                f"inference input '{name}' data-type is '{tensor.datatype}', but model "
                f"'{model.name}' expects '{datatype_of(wanted)}'"
            )
    if request.outputs:
        _check_outputs(request, model)


def _check_outputs(request: InferRequest, model: Model) -> None:
    known = [port.name for port in model.signature.outputs]
    for name in request.outputs:
        if name not in known:
            refuse(
                f"unexpected inference output '{name}' for model '{model.name}' (outputs: "
                f"{', '.join(known)})"
            )


def _timeout(request: InferRequest) -> float | None:
    """The seconds that the request says; None: it does not."""
    timeout = request.parameters.get("timeout")
    if timeout is None or timeout == 0:
        return None
    if type(timeout) is not int or timeout < 0:
        refuse(f"request: timeout {shorten(timeout)}; expected microseconds")
    return timeout / 1e6
