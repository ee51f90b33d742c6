"""The Open Inference Protocol over gRPC: ``inference.GRPCInferenceService``."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from modelflow.buffer import Buffer
from modelflow.serve.access.keys import Group
from modelflow.serve.grpc.service import Rpc, Service
from modelflow.serve.interfaces import GroupCounts, ModelSource, ReplicaGroup
from modelflow.serve.protocols.load_parameters import read_load_parameters
from modelflow.serve.protocols.open_inference import (
    answer_of,
    configuration,
    describe_server,
    find_model,
    find_versions,
    index_of,
    infer,
    info_of,
    route_model,
    statistics_of,
    tensor_of,
)
from modelflow.serve.requests.model import Inference, Model
from modelflow.serve.requests.response_stream import ResponseStream
from modelflow.serve.requests.rows import values_of
from modelflow.serve.requests.state.shared_memory import SharedRegions, refuse_cuda
from modelflow.wire.open_inference.documents import server_message
from modelflow.wire.open_inference.infer import InferAnswer, InferRequest
from modelflow.wire.open_inference.infer_message import infer_message, infer_request
from modelflow.wire.problem import Problem
from modelflow.wire.proto import OPEN_INFERENCE

_FINAL = "triton_final_response"


class InferParts:
    """The form of a streamed reply with one message for each buffer. A `response_stream.Form`.

    The last message has the flag ``triton_final_response``. If the end of the stream was unknown
    when the last buffer was sent, an additional message without outputs has the flag.
    """

    def __init__(
        self, model: Model, request: InferRequest, message: Any, regions: SharedRegions
    ) -> None:
        """Stores the model, the request and its message, and the shared memory."""
        self._model = model
        self._regions = regions
        self._request = request
        self._message = message
        self._ports = {port.name: port for port in model.signature.outputs}
        self._is_final_sent = False

    def part(self, name: str, buffer: Buffer, *, is_last: bool) -> Any | None:
        """Returns the message for a buffer, or None if the request excludes this output."""
        request = self._request
        if request.outputs and name not in request.outputs:
            return None
        port = self._ports[name]
        self._is_final_sent = is_last
        tensor = tensor_of(port, values_of(port, [buffer]), request, self._regions)
        return stream_answer(self._answer(tensor), is_final=is_last)

    def problem(self, problem: Problem) -> Any:
        """Returns the message for a failed request. The gRPC stream stays open."""
        return stream_problem(self._message, problem)

    def end(self) -> Any | None:
        """Returns a final message without outputs, or None if a final message was sent."""
        if self._is_final_sent:
            return None
        return stream_answer(self._answer(), is_final=True)

    def _answer(self, *tensors: Any) -> InferAnswer:
        model = self._model
        return InferAnswer(model.name, str(model.version), tensors, self._request.id)


def stream_answer(answer: InferAnswer, *, is_final: bool) -> Any:
    """Returns a reply as a ``ModelStreamInferResponse``."""
    response = infer_message(answer)
    response.parameters[_FINAL].bool_param = is_final
    return OPEN_INFERENCE["inference.ModelStreamInferResponse"](infer_response=response)


def stream_problem(request: Any, problem: Problem) -> Any:
    """Returns the reply to a failed request. The gRPC stream stays open."""
    answer = OPEN_INFERENCE["inference.ModelStreamInferResponse"](error_message=str(problem))
    response = answer.infer_response
    response.model_name, response.model_version = request.model_name, request.model_version
    response.id = request.id
    response.parameters[_FINAL].bool_param = True
    return answer


_GROUPS: Mapping[str, Group | None] = MappingProxyType(
    {
        "ServerLive": None,
        "ServerReady": None,
        "ModelStatistics": Group.METRICS,
        "RepositoryIndex": Group.REPOSITORY,
        "RepositoryModelLoad": Group.REPOSITORY,
        "RepositoryModelUnload": Group.REPOSITORY,
    }
)


class OpenInferenceGrpc:
    """The services of the Open Inference Protocol: infer, metadata, health and repository."""

    def __init__(self, stock: ModelSource, replica_group: ReplicaGroup) -> None:
        """Stores the models, and the group that loads and unloads models."""
        self._models = stock.models
        self._stock = stock
        self._group = replica_group
        answers = {
            "ServerLive": _live,
            "ServerReady": self._ready,
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._metadata,
            "ModelInfer": self._infer,
            "ModelStreamInfer": self._stream_infer,
            "ModelConfig": self._config,
            "ModelStatistics": self._statistics,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
            "SystemSharedMemoryStatus": self._list_regions,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
            "CudaSharedMemoryStatus": _list_no_regions,
            "CudaSharedMemoryRegister": _refuse_cuda,
            "CudaSharedMemoryUnregister": _forget_no_region,
        }
        self.services: tuple[Service, ...] = (
            Service(
                "inference.GRPCInferenceService",
                OPEN_INFERENCE,
                answers,
                groups=_GROUPS,
            ),
        )

    def _ready(self, rpc: Rpc, _: Any) -> None:
        is_ready = not self._stock.unready()
        rpc.answer(OPEN_INFERENCE["inference.ServerReadyResponse"](ready=is_ready))

    def _model_ready(self, rpc: Rpc, message: Any) -> None:
        try:
            find_model(self._models, message.name, message.version)
        except Problem:
            is_ready = False  # not an error: clients poll this until the model is ready
        else:
            is_ready = True
        rpc.answer(OPEN_INFERENCE["inference.ModelReadyResponse"](ready=is_ready))

    def _metadata(self, rpc: Rpc, message: Any) -> None:
        model = find_model(self._models, message.name, message.version)
        rpc.answer(info_of(self._models, model).message())

    def _config(self, rpc: Rpc, message: Any) -> None:
        found = configuration(find_model(self._models, message.name, message.version))
        rpc.answer(OPEN_INFERENCE["inference.ModelConfigResponse"](config=found))

    def _statistics(self, rpc: Rpc, message: Any) -> None:
        models = find_versions(self._models, message.name, message.version)

        def make_reply(counts: GroupCounts) -> Any:
            found = statistics_of(models, counts.snapshots)
            return OPEN_INFERENCE["inference.ModelStatisticsResponse"](model_stats=found)

        self._group.counts(partial(rpc.settle, make_reply))

    def _index(self, rpc: Rpc, message: Any) -> None:
        rows = index_of(self._models, is_ready_alone=message.ready)
        rpc.answer(OPEN_INFERENCE["inference.RepositoryIndexResponse"](models=rows))

    def _load(self, rpc: Rpc, message: Any) -> None:
        parameters = {
            name: getattr(one, one.WhichOneof("parameter_choice") or "string_param")
            for name, one in message.parameters.items()
        }
        tuning = read_load_parameters(message.model_name, parameters)
        make_reply = partial(_answer_change, rpc, "RepositoryModelLoadResponse")
        self._group.load(message.model_name, make_reply, tuning)

    def _unload(self, rpc: Rpc, message: Any) -> None:
        make_reply = partial(_answer_change, rpc, "RepositoryModelUnloadResponse")
        self._group.unload(message.model_name, make_reply)

    def _infer(self, rpc: Rpc, message: Any) -> None:
        request = self._read(message)
        model = route_model(self._models, request.model_name, request.model_version)
        _send(rpc, model, request, self._answer)

    def _read(self, message: Any) -> InferRequest:
        regions = self._models.regions
        return infer_request(message, regions.read if regions.is_allowed else None)

    def _answer(self, request: InferRequest, call: Inference) -> Any:
        found = answer_of(call.model, call.outputs(), request, self._models.regions)
        return infer_message(found)

    def _whole_stream(self, request: InferRequest, call: Inference) -> Any:
        found = answer_of(call.model, call.outputs(), request, self._models.regions)
        return stream_answer(found, is_final=True)

    def _stream_infer(self, rpc: Rpc, message: Any) -> None:
        rpc.refusal = partial(stream_problem, message)
        request = self._read(message)
        model = route_model(self._models, request.model_name, request.model_version)
        if all(port.is_single for port in model.signature.outputs):
            _send(rpc, model, request, self._whole_stream)
        else:
            terms = rpc.terms._replace(is_stream=True)
            send = lambda done: infer(model, request, done, terms)  # noqa: E731
            parts = InferParts(model, request, message, self._models.regions)
            ResponseStream(parts, send).begin(rpc)

    def _server(self, rpc: Rpc, _: Any) -> None:
        rpc.answer(server_message(*describe_server(self._models)))

    def _list_regions(self, rpc: Rpc, message: Any) -> None:
        answer = OPEN_INFERENCE["inference.SystemSharedMemoryStatusResponse"]()
        for region in self._models.regions.list(message.name):
            for key, value in region.items():
                setattr(answer.regions[region["name"]], key, value)
        rpc.answer(answer)

    def _register(self, rpc: Rpc, message: Any) -> None:
        keys = ("name", "key", "offset", "byte_size")
        change = {"register": {key: getattr(message, key) for key in keys}}
        told = partial(_answer_change, rpc, "SystemSharedMemoryRegisterResponse")
        self._group.share(change, told)

    def _unregister(self, rpc: Rpc, message: Any) -> None:
        told = partial(_answer_change, rpc, "SystemSharedMemoryUnregisterResponse")
        self._group.share({"unregister": message.name}, told)


def _send(
    rpc: Rpc,
    model: Model,
    request: InferRequest,
    answer: Callable[[InferRequest, Inference], Any],
) -> None:
    """Sends a request that has a single reply."""
    make_reply = partial(rpc.settle, answer, request)
    rpc.on_gone = infer(model, request, make_reply, rpc.terms).cancel


def _answer_change(rpc: Rpc, name: str, error: Exception | None) -> None:
    def make_reply() -> Any:
        if error is not None:
            raise error
        return OPEN_INFERENCE[f"inference.{name}"]()

    rpc.settle(make_reply)


def _live(rpc: Rpc, _: Any) -> None:
    rpc.answer(OPEN_INFERENCE["inference.ServerLiveResponse"](live=True))


def _list_no_regions(rpc: Rpc, _: Any) -> None:
    rpc.answer(OPEN_INFERENCE["inference.CudaSharedMemoryStatusResponse"]())


def _refuse_cuda(_: Rpc, __: Any) -> None:
    raise refuse_cuda()


def _forget_no_region(rpc: Rpc, _: Any) -> None:
    rpc.answer(OPEN_INFERENCE["inference.CudaSharedMemoryUnregisterResponse"]())
