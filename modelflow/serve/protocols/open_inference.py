"""The parts of the Open Inference Protocol that REST and gRPC share.

A request with an unsupported parameter is refused, and the error names the parameter. A reply that
ignores the parameter would look as if the server had obeyed it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import modelflow
from modelflow.graph.graph_port import GraphPort
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.metrics.statistics import inference_statistics
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model, SequenceStep, Terms
from modelflow.serve.requests.rows import as_tensor, describe_tensor
from modelflow.serve.requests.state.shared_memory import PARAMETERS, SharedRegions
from modelflow.serve.requests.time_limits import earlier
from modelflow.wire.json_to_array import json_type
from modelflow.wire.open_inference.documents import ModelInfo, TensorInfo
from modelflow.wire.open_inference.infer import (
    IN_REGION,
    InferAnswer,
    InferRequest,
    InferTensor,
    Parameters,
    classify,
)
from modelflow.wire.problem import Code, Problem, refuse, shorten, unknown_model
from modelflow.wire.raw_tensor import to_raw
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
        "input": [
            {**_port(port, is_batched), "format": f"FORMAT_{port.format or 'NONE'}"}
            for port in signature.inputs
        ],
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


# Supported parameters; the readers apply them. In a stream each reply has the final flag anyway, so
# triton_enable_empty_final_response needs no code.
_DONE_OF_REQUEST = frozenset(
    {
        "timeout",
        "priority",
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "binary_data_output",
        "triton_enable_empty_final_response",
    }
)
_DONE_OF_INPUT = frozenset({"binary_data_size", *PARAMETERS})
_DONE_OF_OUTPUT = frozenset({"binary_data", "classification", *PARAMETERS})
_FIRST = 1  # the value of ``priority`` for the first class
_PRIORITIES = (0, _FIRST, 2)  # 0: the default class, which is the second
_LONGEST_ID = 128  # characters of a sequence's id, as in Triton


def _check_each(
    parameters: Parameters, done: Collection[str], where: str, own: Collection[str] = ()
) -> None:
    """Refuses parameters that are neither ``done`` by the server nor the model's ``own``."""
    for name, value in parameters.items():
        if name in own and not isinstance(value, bool | int | float | str):
            refuse(
                f"{where}: parameter {shorten(name)} is {json_type(value)}; expected a text, a "
                "number, or a boolean"
            )
        if name not in done and name not in own:
            known = ", ".join(sorted({*done, *own}))
            refuse(
                f"{where}: parameter {shorten(name)} is not supported; expected {known}, or none; "
                "leave it out"
            )


def check_extras(extras: Parameters, model: Model) -> None:
    """Checks the keys of a ``generate`` request that are no inputs of the model.

    Raises:
        Problem: A parameter is not supported. The error names the parameter.
    """
    _check_each(extras, _DONE_OF_REQUEST | {"id"}, "request", model.parameters)


def extend_terms(terms: Terms, given: Parameters, model: Model) -> Terms:
    """Returns the terms of a request with its checked parameters applied.

    Args:
        terms: The terms from the headers.
        given: The parameters of the request.
        model: The model of the request.

    Raises:
        Problem: A value is wrong, or the model takes no sequences.
    """
    own = {name: given[name] for name in model.parameters if name in given}
    sequence = _read_sequence(given, model)
    is_first = terms.is_first or _is_first(given)
    if sequence is not None and is_first:
        refuse("request: a sequence with priority 1; expected one of the two")
    return terms._replace(
        deadline=earlier(terms.deadline, _timeout(given)),
        is_first=is_first,
        sequence=sequence,
        parameters=own or None,
    )


def _is_first(given: Parameters) -> bool:
    priority = given.get("priority", 0)
    if type(priority) is not int or priority not in _PRIORITIES:
        refuse(
            f"request: parameter 'priority': got {shorten(priority)}; expected 1 for the first "
            "class, or 0 or 2 for the second"
        )
    return priority == _FIRST


def _read_sequence(given: Parameters, model: Model) -> SequenceStep | None:
    name = given.get("sequence_id", 0)
    flags = [given.get(f"sequence_{flag}", False) for flag in ("start", "end")]
    if type(name) in (int, str) and not name and flags == [False, False]:
        return None
    for flag, value in zip(("start", "end"), flags, strict=True):
        if type(value) is not bool:
            refuse(
                f"request: parameter 'sequence_{flag}': got {shorten(value)}; expected true or "
                "false"
            )
    is_id = (type(name) is int and name > 0) or (type(name) is str and 0 < len(name) <= _LONGEST_ID)
    if not is_id:
        refuse(
            f"request: parameter 'sequence_id': got {shorten(name)}; expected a number above 0, or "
            f"a text of at most {_LONGEST_ID} characters, with sequence_start or sequence_end"
        )
    if model.sequence_refusal:
        refuse(
            f"request: parameter 'sequence_id': model {model.name!r} takes no sequences: "
            f"{model.sequence_refusal}"
        )
    return SequenceStep(name, *flags)


_EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "parameters",
    "sequence",
    "schedule_policy",
    "model_configuration",
    "model_repository",
    "statistics",
)


def describe_server(models: Models) -> tuple[str, str, Sequence[str]]:
    """Returns the server's metadata: its name, its version and its protocol extensions."""
    shared = ("system_shared_memory",) if models.regions.is_allowed else ()
    return "modelflow", modelflow.__version__, (*_EXTENSIONS, *shared)


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
        terms = extend_terms(terms, request.parameters, model)
    return model.infer(arrays, done, terms)


def answer_of(
    model: Model, values: Mapping[str, Any], request: InferRequest, regions: SharedRegions
) -> InferAnswer:
    """Returns the reply to a request: the requested outputs, as arrays or as classes.

    Args:
        model: The model.
        values: The value of each output.
        request: The request.
        regions: The shared memory for outputs that name a region.

    Raises:
        Problem: The request asks for classes, and an output is no tensor of scores.
    """
    tensors = []
    for name, value in values.items():
        if not request.outputs or name in request.outputs:
            tensors.append(tensor_of(model.outputs[name], value, request, regions))
    return InferAnswer(model.name, str(model.version), tuple(tensors), request.id)


def tensor_of(
    port: GraphPort, value: Any, request: InferRequest, regions: SharedRegions
) -> InferTensor:
    """Returns the tensor of an output, as an array or as classes.

    Raises:
        Problem: The request asks for classes, and the output is no tensor of scores.
    """
    array = as_tensor(value)
    asked = request.outputs.get(port.name)
    if asked is not None and asked.classes:
        array = classify(array, asked.classes, port.labels, f"output {port.name!r}")
    tensor = InferTensor(port.name, datatype_of(array.dtype), array)
    if asked is not None and IN_REGION in asked.parameters:
        where = f"output {port.name!r}"
        data = to_raw(array, tensor.datatype, where)
        return replace(tensor, parameters=regions.write(asked.parameters, data, where))
    return tensor


def _check_parameters(request: InferRequest, model: Model) -> None:
    if request.parameters:
        _check_each(request.parameters, _DONE_OF_REQUEST, "request", model.parameters)
    for name, tensor in request.inputs.items():
        if tensor.parameters:
            _check_each(tensor.parameters, _DONE_OF_INPUT, f"input {shorten(name)}")
    for name, output in request.outputs.items():
        if output.parameters:
            _check_each(output.parameters, _DONE_OF_OUTPUT, f"output {shorten(name)}")


def check_request(request: InferRequest, model: Model) -> None:
    """Checks that the inputs, outputs and parameters of a request suit a model.

    Raises:
        Problem: An input has another type, the model has no such output, or a parameter is not
            supported.
    """
    _check_parameters(request, model)
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


def _timeout(given: Parameters) -> float | None:
    """Returns the parameter ``timeout`` in seconds, or None if the request has no timeout."""
    timeout = given.get("timeout")
    if timeout is None or timeout == 0:
        return None
    if type(timeout) is not int or timeout < 0:
        refuse(f"request: timeout {shorten(timeout)}; expected microseconds")
    return timeout / 1e6
