"""The Open Inference Protocol's REST interface: ``/v2/...``."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import modelflow
from modelflow.graph.signature import GraphPort
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.call import Call
from modelflow.serve.compression import compressed, whole_body
from modelflow.serve.models import Models
from modelflow.serve.patience import seconds_of
from modelflow.serve.refusal import JSON, refusal
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.served_model import ServedModel
from modelflow.serve.tensors import as_tensor, served_tensor
from modelflow.wire.datatype import DATATYPES, datatype_of
from modelflow.wire.open_inference.classification import classified
from modelflow.wire.open_inference.documents import ModelInfo, TensorInfo, server_document
from modelflow.wire.open_inference.infer import InferAnswer, InferRequest, InferTensor
from modelflow.wire.open_inference.infer_answer import infer_answer
from modelflow.wire.open_inference.infer_json import read_infer
from modelflow.wire.open_inference.raw_input import read_raw_input
from modelflow.wire.problem import Code, Problem
from modelflow.wire.tensor import TensorSpec

__all__ = ["OpenInferenceRest"]

EXTENSIONS = ("binary_tensor_data", "classification", "parameters", "model_repository")
_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>\d+))?"
_LENGTH = b"inference-header-content-length"
_PLATFORM = "modelflow_graph"


class OpenInferenceRest:
    """Answers infer, metadata, health and repository requests."""

    def __init__(self, models: Models, max_body: int) -> None:
        """Takes what is served, and most bytes of a body that was compressed."""
        self._models = models
        self._most = max_body
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}/infer", POST=self._infer),
            endpoint(f"{_MODEL}/ready", GET=self._model_ready),
            endpoint(_MODEL, GET=self._metadata),
            endpoint("/v2/?", GET=_server),
        )

    def _model(self, path: Mapping[str, str]) -> ServedModel:
        try:
            return self._models.find(**path)
        except Problem as problem:
            if problem.code is not Code.NOT_FOUND:
                raise
            name, version = path["name"], path.get("version")
            what = f"'{name}'" if version is None else f"'{name}' version {version}"
            message = f"Request for unknown model: {what} is not found"
            raise Problem(message, Code.NOT_FOUND) from problem

    def _infer(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._model(path)
        request = self._read(exchange, model)
        _check(request, model)
        arrays = {name: tensor.array for name, tensor in request.inputs.items()}
        done = partial(_answer, exchange, request)
        exchange.on_gone = model.infer(arrays, done, _deadline(exchange, request)).cancel

    def _read(self, exchange: Exchange, model: ServedModel) -> InferRequest:
        body = whole_body(exchange, self._most)
        length = exchange.header(_LENGTH)
        if length is not None and not length.isdigit():
            text = length.decode("latin-1")
            message = f"Inference-Header-Content-Length: {text!r}; expected a number of bytes"
            raise Problem(message)
        if length is not None and not int(length):
            return _read_raw(body, model)
        return read_infer(body, None if length is None else int(length))

    def _metadata(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._model(path)
        versions = tuple(str(one.version) for one in self._models.versions(model.name))
        inputs, outputs = (
            tuple(TensorInfo.of(port.name, served_tensor(port)) for port in ports)
            for ports in (model.signature.inputs, model.signature.outputs)
        )
        info = ModelInfo(model.name, versions, _PLATFORM, inputs, outputs)
        exchange.answer(Reply(200, info.document(), JSON))

    def _model_ready(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        try:
            self._model(path)
        except Problem as problem:
            if problem.code is not Code.UNAVAILABLE:
                raise
            raise Problem(str(problem)) from problem  # the protocol's answer to "not ready" is 400
        exchange.answer(Reply(200, b"", {}))


def _server(exchange: Exchange, _: Mapping[str, str]) -> None:
    document = server_document("modelflow", modelflow.__version__, EXTENSIONS)
    exchange.answer(Reply(200, document, JSON))


def _read_raw(body: bytes, model: ServedModel) -> InferRequest:
    ports = model.signature.inputs
    if len(ports) != 1:
        message = f"a raw request is for a model with one input; {model.name!r} has {len(ports)}"
        raise Problem(message)
    tensor = served_tensor(ports[0]) or TensorSpec(ports[0].name, DATATYPES["BYTES"], (None,))
    named = TensorSpec(ports[0].name, tensor.dtype, tensor.shape)
    return read_raw_input(body, named, datatype_of(tensor.dtype))


def _check(request: InferRequest, model: ServedModel) -> None:
    ports = {port.name: port for port in model.signature.inputs}
    for name, tensor in request.inputs.items():
        wanted = ports[name].tensor if name in ports else None
        if wanted is not None and tensor.datatype != datatype_of(wanted.dtype):
            message = (
                f"inference input '{name}' data-type is '{tensor.datatype}', but model "
                f"'{model.name}' expects '{datatype_of(wanted.dtype)}'"
            )
            raise Problem(message)
    known = [port.name for port in model.signature.outputs]
    for name in request.outputs:
        if name not in known:
            message = (
                f"unexpected inference output '{name}' for model '{model.name}' (outputs: "
                f"{', '.join(known)})"
            )
            raise Problem(message)


def _deadline(exchange: Exchange, request: InferRequest) -> float | None:
    """The seconds that the request says, or its head; None: neither does."""
    timeout = request.parameters.get("timeout")
    if timeout is None or timeout == 0:
        return seconds_of(exchange)
    if type(timeout) is not int or timeout < 0:
        message = f"request: timeout {timeout!r}; expected microseconds"
        raise Problem(message)
    return timeout / 1e6


def _answer(exchange: Exchange, request: InferRequest, call: Call) -> None:
    try:
        ports = {port.name: port for port in call.model.signature.outputs}
        tensors = tuple(
            _tensor(ports[name], value, request)
            for name, value in call.outputs().items()
            if not request.outputs or name in request.outputs
        )
        model = call.model
        answer = InferAnswer(model.name, str(model.version), tensors, request.id)
        body, length = infer_answer(answer, request)
    except Problem as problem:
        exchange.answer(refusal(problem))
        return
    headers = dict(JSON)
    if length is not None:
        headers = {"content-type": "application/octet-stream", _LENGTH.decode(): str(length)}
    exchange.answer(compressed(exchange, Reply(200, body, headers)))


def _tensor(port: GraphPort, value: Any, request: InferRequest) -> InferTensor:
    array = as_tensor(value)
    asked = request.outputs.get(port.name)
    if asked is not None and asked.classes:
        array = classified(array, asked.classes, port.labels, f"output {port.name!r}")
    return InferTensor(port.name, datatype_of(array.dtype), array)
