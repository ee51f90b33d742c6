"""The Open Inference Protocol's REST interface: ``/v2/...``."""

from collections.abc import Mapping
from functools import partial

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, compress_reply, settle, whole_body
from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.protocols.open_inference import (
    SERVER,
    answer_of,
    configuration,
    find_model,
    find_versions,
    infer,
    info_of,
    statistics_of,
)
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model
from modelflow.serve.requests.rows import describe_tensor
from modelflow.serve.requests.time_limits import seconds_of
from modelflow.wire.json_writer import json_of
from modelflow.wire.open_inference.documents import server_document
from modelflow.wire.open_inference.infer import InferRequest
from modelflow.wire.open_inference.infer_json import infer_answer, read_infer, read_raw_input
from modelflow.wire.problem import Code, Problem, refuse
from modelflow.wire.tensor import DATATYPES, TensorSpec, datatype_of

_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>\d+))?"
_LENGTH = b"inference-header-content-length"


class OpenInferenceRest:
    """Answers infer, metadata, statistics and configuration requests, and the health of models."""

    def __init__(self, models: Models, replica_group: ReplicaGroup, options: ServeOptions) -> None:
        """Takes what is served, who else serves it, and what a body may hold."""
        self._models = models
        self._group = replica_group
        self._options = options
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}/infer", POST=self._infer),
            endpoint(f"{_MODEL}/ready", GET=self._model_ready),
            endpoint("/v2/models/stats", GET=self._all_statistics).of(Group.METRICS),
            endpoint(f"{_MODEL}/stats", GET=self._statistics).of(Group.METRICS),
            endpoint(f"{_MODEL}/config", GET=self._config),
            endpoint(_MODEL, GET=self._metadata),
            endpoint("/v2/?", GET=_server),
        )

    def _infer(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model, seconds = find_model(self._models, **path), seconds_of(http_request)
        model.expect(seconds)
        request = self._read(http_request, model)
        done = partial(_answer, http_request, request)
        http_request.on_gone = infer(
            model, request, done, seconds, http_request.request_context
        ).cancel

    def _read(self, http_request: HttpRequest, model: Model) -> InferRequest:
        body = whole_body(http_request, self._options.expanded)
        length = http_request.head.named.get(_LENGTH)
        if length is not None and not length.isdigit():
            text = length.decode("latin-1")
            refuse(f"Inference-Header-Content-Length: {text!r}; expected a number of bytes")
        if length is not None and not int(length):
            return _read_raw(body, model)
        return read_infer(body, None if length is None else int(length), self._options.json)

    def _metadata(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        info = info_of(self._models, find_model(self._models, **path))
        http_request.answer(Reply(200, info.document(), JSON))

    def _statistics(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        models = find_versions(self._models, **path)

        def make_reply(counts: GroupCounts) -> Reply:
            found = statistics_of(models, counts.snapshots)
            return Reply(200, json_of({"model_stats": found}), JSON)

        self._group.counts(partial(settle, http_request, make_reply))

    def _all_statistics(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        self._statistics(http_request, {})

    def _config(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        found = configuration(find_model(self._models, **path))
        http_request.answer(Reply(200, json_of(found), JSON))

    def _model_ready(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        try:
            find_model(self._models, **path)
        except Problem as problem:
            if problem.code is not Code.UNAVAILABLE:
                raise
            raise Problem(str(problem)) from problem  # the protocol's answer to "not ready" is 400
        http_request.answer(Reply(200, b"", {}))


def _server(http_request: HttpRequest, _: Mapping[str, str]) -> None:
    http_request.answer(Reply(200, server_document(*SERVER), JSON))


def _read_raw(body: bytes, model: Model) -> InferRequest:
    ports = model.signature.inputs
    if len(ports) != 1:
        refuse(f"a raw request is for a model with one input; {model.name!r} has {len(ports)}")
    tensor = describe_tensor(ports[0]) or TensorSpec(ports[0].name, DATATYPES["BYTES"], (None,))
    named = TensorSpec(ports[0].name, tensor.dtype, tensor.shape)
    return read_raw_input(body, named, datatype_of(tensor.dtype))


def _answer(http_request: HttpRequest, request: InferRequest, call: Inference) -> None:
    settle(http_request, lambda: compress_reply(http_request, _reply(call, request)))


def _reply(call: Inference, request: InferRequest) -> Reply:
    body, length = infer_answer(answer_of(call, request), request)
    if length is None:
        return Reply(200, body, JSON)
    headers = {"content-type": "application/octet-stream", _LENGTH.decode(): str(length)}
    return Reply(200, body, headers)
