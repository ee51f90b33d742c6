"""The Open Inference Protocol over gRPC: ``inference.GRPCInferenceService``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from modelflow.serve.call import Call
from modelflow.serve.grpc.rpc import Rpc
from modelflow.serve.grpc.service import Service
from modelflow.serve.keys import Group
from modelflow.serve.models import Models
from modelflow.serve.open_inference import (
    SERVER,
    answer_of,
    find_model,
    index_of,
    infer,
    info_of,
    tensor_of,
)
from modelflow.serve.rows import values_of
from modelflow.wire.open_inference.documents import server_message
from modelflow.wire.open_inference.infer import InferAnswer, InferRequest
from modelflow.wire.open_inference.infer_message import infer_message, infer_request
from modelflow.wire.open_inference.messages import OPEN_INFERENCE
from modelflow.wire.problem import Problem

__all__ = ["OpenInferenceGrpc"]

_Answers = Callable[[Call, InferRequest], Iterable[Any]]

_FINAL = "triton_final_response"
_NO_LOADING = "models are loaded and unloaded over REST: POST /v2/repository/models/NAME/load"
_MISSING = {
    "ModelConfig": "ask for ModelMetadata, which names inputs and outputs",
    "ModelStatistics": "there are no statistics over this protocol",
    "RepositoryModelLoad": _NO_LOADING,
    "RepositoryModelUnload": _NO_LOADING,
}
_GROUPS: Mapping[str, Group | None] = MappingProxyType(
    {
        "ServerLive": None,
        "ServerReady": None,
        "RepositoryIndex": Group.REPOSITORY,
        "RepositoryModelLoad": Group.REPOSITORY,
        "RepositoryModelUnload": Group.REPOSITORY,
    }
)


class OpenInferenceGrpc:
    """Answers infer, metadata, health and repository requests."""

    def __init__(self, models: Models) -> None:
        """Takes what is served."""
        self._models = models
        answers = {
            "ServerLive": _live,
            "ServerReady": self._ready,
            "ServerMetadata": _server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._metadata,
            "ModelInfer": self._infer,
            "ModelStreamInfer": self._stream_infer,
            "RepositoryIndex": self._index,
        }
        self.services: tuple[Service, ...] = (
            Service("inference.GRPCInferenceService", OPEN_INFERENCE, answers, _MISSING, _GROUPS),
        )

    def _ready(self, rpc: Rpc, _: Any) -> None:
        is_ready = not self._models.unready()
        rpc.answer(OPEN_INFERENCE["inference.ServerReadyResponse"](ready=is_ready))

    def _model_ready(self, rpc: Rpc, message: Any) -> None:
        try:
            find_model(self._models, message.name, message.version)
        except Problem:
            is_ready = False  # not an error: it is what a client waits with
        else:
            is_ready = True
        rpc.answer(OPEN_INFERENCE["inference.ModelReadyResponse"](ready=is_ready))

    def _metadata(self, rpc: Rpc, message: Any) -> None:
        model = find_model(self._models, message.name, message.version)
        rpc.answer(info_of(self._models, model).message())

    def _index(self, rpc: Rpc, _: Any) -> None:
        answer = OPEN_INFERENCE["inference.RepositoryIndexResponse"](models=index_of(self._models))
        rpc.answer(answer)

    def _infer(self, rpc: Rpc, message: Any) -> None:
        self._send(rpc, infer_request(message), _answer)

    def _stream_infer(self, rpc: Rpc, message: Any) -> None:
        rpc.refusal = partial(_error, message)
        self._send(rpc, infer_request(message), _answers)

    def _send(self, rpc: Rpc, request: InferRequest, answers: _Answers) -> None:
        model = find_model(self._models, request.model_name, request.model_version)

        def done(call: Call) -> None:
            rpc.settle(partial(answers, call, request))

        rpc.on_gone = infer(model, request, done, rpc.seconds, rpc.visit).cancel


def _live(rpc: Rpc, _: Any) -> None:
    rpc.answer(OPEN_INFERENCE["inference.ServerLiveResponse"](live=True))


def _server(rpc: Rpc, _: Any) -> None:
    rpc.answer(server_message(*SERVER))


def _answer(call: Call, request: InferRequest) -> Iterator[Any]:
    yield infer_message(answer_of(call, request))


def _answers(call: Call, request: InferRequest) -> Iterator[Any]:
    """One answer for the request; where an output gives any number of buffers, one for each."""
    if all(port.is_single for port in call.model.signature.outputs):
        parts = [answer_of(call, request)]
    else:
        parts = list(_parts(call, request))
    for place, part in enumerate(parts, 1):
        response = infer_message(part)
        response.parameters[_FINAL].bool_param = place == len(parts)
        yield OPEN_INFERENCE["inference.ModelStreamInferResponse"](infer_response=response)


def _parts(call: Call, request: InferRequest) -> Iterator[InferAnswer]:
    ports = {port.name: port for port in call.model.signature.outputs}
    found = {
        name: buffers
        for name, buffers in call.buffers().items()
        if not request.outputs or name in request.outputs
    }
    most = max(map(len, found.values()), default=0)
    for place in range(max(1, most)):
        tensors = tuple(
            tensor_of(ports[name], values_of(ports[name], buffers[place : place + 1]), request)
            for name, buffers in found.items()
            if place < len(buffers) or not most
        )
        yield InferAnswer(call.model.name, str(call.model.version), tensors, request.id)


def _error(request: Any, problem: Problem) -> Any:
    """The answer in a stream to a request that failed; the stream goes on."""
    answer = OPEN_INFERENCE["inference.ModelStreamInferResponse"](error_message=str(problem))
    response = answer.infer_response
    response.model_name, response.model_version = request.model_name, request.model_version
    response.id = request.id
    response.parameters[_FINAL].bool_param = True
    return answer
