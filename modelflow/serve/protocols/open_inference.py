"""The parts of the Open Inference Protocol that REST and gRPC share.

A request with an unsupported parameter is refused, and the error names the parameter. A reply that
ignores the parameter would look as if the server had obeyed it.
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
"""The platform of every model, in the protocol's metadata."""

_TYPES = {"BYTES": "TYPE_STRING"}  # all other names are TYPE_ and the datatype


def configuration(model: Model) -> dict[str, Any]:
    """Returns the configuration of a model with the field names of ``inference.ModelConfig``.

    ``parameters`` holds the settings of a client that has loaded the model with ``config``. If all
    inputs and outputs are batched, the shapes omit axis 0, as in Triton. Then
    ``max_batch_size`` is the most rows of one call of the model. A request may have more rows.
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
    if model.tuning:
        found["parameters"] = {
            key: {"string_value": str(value)} for key, value in model.tuning.items()
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


_SEQUENCE = "sequences are not supported, each request is answered on its own"

# Supported parameters; the readers apply them. In a stream each reply has the final flag anyway, so
# triton_enable_empty_final_response needs no code.
_DONE_OF_REQUEST = frozenset(
    {"timeout", "binary_data_output", "triton_enable_empty_final_response"}
)
_DONE_OF_INPUT = frozenset({"binary_data_size"})
_DONE_OF_OUTPUT = frozenset({"binary_data", "classification"})

# Unsupported parameters: name -> the harmless values, and the reason why others are refused.
_NOT_DONE: Mapping[str, tuple[tuple[Any, ...], str]] = MappingProxyType(
    {
        "priority": ((0,), "requests are answered in the order of arrival"),
        "sequence_id": ((0, ""), _SEQUENCE),
        "sequence_start": ((False,), _SEQUENCE),
        "sequence_end": ((False,), _SEQUENCE),
    }
)


def check_parameters(request: InferRequest) -> None:
    """Checks that all parameters of a request, its inputs and its outputs are supported.

    Raises:
        Problem: A parameter is not supported. The error names the parameter.
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
    """Checks the keys of a ``generate`` request that are no inputs of the model.

    As in Triton, these keys are parameters of the model itself, such as ``temperature``. Their
    values are texts, numbers or booleans. Unsupported parameters of the protocol are refused.

    Raises:
        Problem: A parameter is refused, or is no text, number or boolean. The error names it.
    """
    for name, value in extras.items():
        if name in _NOT_DONE:
            _check_default(name, value, "request")
        elif name.startswith("triton_"):
            refuse(f"request: parameter {shorten(name)} is not supported; leave it out")
        elif not isinstance(value, bool | int | float | str):
            refuse(
                f"request: {shorten(name)} is no input; as a parameter, got {json_type(value)}; "
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
"""The server's metadata: its name, its version and its protocol extensions."""

# The protocol's names for the states of a version.
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
        Problem: The model does not exist, or is being loaded (`Code.UNAVAILABLE`).
    """
    try:
        return models.find(name, version)
    except Problem as problem:
        if problem.code is not Code.NOT_FOUND:
            raise
        raise unknown_model(name, version) from problem


def route_model(models: Models, name: str, version: str = "") -> Model:
    """Returns the model for a request to infer; see `Models.route`.

    Args:
        models: The served models.
        name: The name of the model.
        version: The version, a label, or ``""`` for the newest version.

    Raises:
        Problem: As `find_model`.
    """
    try:
        return models.route(name, version)
    except Problem as problem:
        if problem.code is not Code.NOT_FOUND:
            raise
        raise unknown_model(name, version) from problem


def info_of(models: Models, model: Model) -> ModelInfo:
    """Returns the metadata of a model: its versions, inputs and outputs."""
    versions = tuple(str(one.version) for one in models.versions(model.name))
    inputs, outputs = (
        tuple(TensorInfo.of(port.name, describe_tensor(port)) for port in ports)
        for ports in (model.signature.inputs, model.signature.outputs)
    )
    return ModelInfo(model.name, versions, PLATFORM, inputs, outputs)


def find_versions(models: Models, name: str = "", version: str = "") -> list[Model]:
    """Returns the served versions of a model, the newest first.

    Args:
        models: The served models.
        name: The model, or ``""`` for all models.
        version: Only this version, or ``""`` for all versions.

    Raises:
        Problem: The model is not served.
    """
    if not name:
        return list(models)
    if version:
        return [find_model(models, name, version)]
    find_model(models, name)
    return models.versions(name)


def statistics_of(models: Iterable[Model], found: Iterable[ModelSnapshot]) -> list[dict[str, Any]]:
    """Returns the statistics of the models, in the same order, from the snapshots."""
    snapshots = {(snapshot.name, snapshot.version): snapshot for snapshot in found}
    known = [(model.name, model.version) for model in models]
    return [inference_statistics(snapshots[each]) for each in known if each in snapshots]


def index_of(models: Models, *, is_ready_alone: bool = False) -> list[dict[str, str]]:
    """Returns the rows of the repository index: the models with their states."""
    rows = [_row(*one) for one in models.index()]
    return [row for row in rows if not is_ready_alone or row["state"] == "READY"]


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
    """Sends a request to a model, and calls ``done`` with the result.

    Args:
        model: The model.
        request: The request.
        done: Called on this thread with the finished inference.
        terms: The deadline and the context. The parameter ``timeout`` may set an earlier deadline.

    Raises:
        Problem: The request does not fit the model, or the model has too many requests.
    """
    check_request(request, model)
    arrays = {name: tensor.array for name, tensor in request.inputs.items()}
    if request.parameters:
        terms = terms._replace(deadline=earlier(terms.deadline, _timeout(request)))
    return model.infer(arrays, done, terms)


def answer_of(model: Model, values: Mapping[str, Any], request: InferRequest) -> InferAnswer:
    """Returns the reply to a request: the requested outputs, as arrays or as classes.

    Args:
        model: The model.
        values: The value of each output.
        request: The request.

    Raises:
        Problem: The request asks for classes, and an output is no tensor of scores.
    """
    tensors = []
    for name, value in values.items():
        if not request.outputs or name in request.outputs:
            tensors.append(tensor_of(model.outputs[name], value, request))
    return InferAnswer(model.name, str(model.version), tuple(tensors), request.id)


def tensor_of(port: GraphPort, value: Any, request: InferRequest) -> InferTensor:
    """Returns the tensor of an output, as an array or as classes.

    Raises:
        Problem: The request asks for classes, and the output is no tensor of scores.
    """
    array = as_tensor(value)
    asked = request.outputs.get(port.name)
    if asked is not None and asked.classes:
        array = classify(array, asked.classes, port.labels, f"output {port.name!r}")
    return InferTensor(port.name, datatype_of(array.dtype), array)


def check_request(request: InferRequest, model: Model) -> None:
    """Checks that the inputs, outputs and parameters of a request suit a model.

    Raises:
        Problem: An input has another type, the model has no such output, or a parameter is not
            supported.
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
    """Returns the parameter ``timeout`` in seconds, or None if the request has no timeout."""
    timeout = request.parameters.get("timeout")
    if timeout is None or timeout == 0:
        return None
    if type(timeout) is not int or timeout < 0:
        refuse(f"request: timeout {shorten(timeout)}; expected microseconds")
    return timeout / 1e6
