"""The Open Inference Protocol's REST interface: ``/v2/...``."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, compress_reply, settle, whole_body
from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.interfaces import GroupCounts, ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.protocols.open_inference import (
    answer_of,
    check_request,
    configuration,
    describe_server,
    find_model,
    find_versions,
    infer,
    info_of,
    route_model,
    statistics_of,
)
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Model, Terms
from modelflow.serve.requests.pending import NOT_TOGETHER, ReadRows
from modelflow.serve.requests.request_batch import BatchMember
from modelflow.serve.requests.rows import check_item, describe_tensor
from modelflow.serve.requests.state.shared_memory import SharedRegions
from modelflow.serve.requests.time_limits import PRIORITY, is_first
from modelflow.serve.rest.row_reader import RestRowReader
from modelflow.wire.json_writer import json_of
from modelflow.wire.open_inference.documents import server_document
from modelflow.wire.open_inference.infer import IN_REGION, InferRequest
from modelflow.wire.open_inference.infer_form import CutRequest, cut_infer, join_data
from modelflow.wire.open_inference.infer_json import (
    infer_answer,
    infer_answers,
    read_infer,
    read_raw_input,
)
from modelflow.wire.problem import Code, Problem, refuse, shorten
from modelflow.wire.tensor import DATATYPES, TensorSpec, datatype_of

if TYPE_CHECKING:
    from modelflow.serve.requests.served_model import ServedModel

_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_LENGTH = b"inference-header-content-length"
_MOST_DIGITS = 18


class OpenInferenceRest:
    """The REST endpoints of the Open Inference Protocol for models."""

    def __init__(self, models: Models, replica_group: ReplicaGroup, options: ServeOptions) -> None:
        """Stores the models, the group of processes, and the limits on bodies."""
        self._models = models
        self._group = replica_group
        reader = InferReader(partial(route_model, models), options, models.regions)
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}/infer", POST=reader.receive),
            endpoint(f"{_MODEL}/ready", GET=self._model_ready),
            endpoint("/v2/models/stats", GET=self._all_statistics).of(Group.METRICS),
            endpoint(f"{_MODEL}/stats", GET=self._statistics).of(Group.METRICS),
            endpoint(f"{_MODEL}/config", GET=self._config),
            endpoint(_MODEL, GET=self._metadata),
            endpoint("/v2/?", GET=self._server),
        )

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

    def _server(self, http_request: HttpRequest, _: Mapping[str, str]) -> None:
        http_request.answer(Reply(200, server_document(*describe_server(self._models)), JSON))

    def _model_ready(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        try:
            find_model(self._models, **path)
        except Problem as problem:
            if problem.code is not Code.UNAVAILABLE:
                raise
            raise Problem(str(problem)) from problem  # the protocol's answer to "not ready" is 400
        http_request.answer(Reply(200, b"", {}))


class InferReader(RestRowReader):
    """The reader of infer requests, which reads several requests with one tensor each together."""

    deadline_mark = b'"timeout"'
    priority_mark = b'"priority"'

    def __init__(
        self, find: Callable[..., Model], options: ServeOptions, regions: SharedRegions
    ) -> None:
        """Stores the function that finds a model, the limits on bodies, and the shared memory."""
        super().__init__(find, options)
        self._regions = regions

    def ask(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        """Reads one request and sends its inputs to the model; see `RestRowReader.ask`."""
        is_asked = PRIORITY in http_request.head.named and is_first(http_request)
        model.expect(seconds, is_first=is_asked or self.priority_mark in http_request.body)
        request = _read(http_request, model, self.options, self._regions)
        done = partial(self.answer, http_request, request)
        terms = Terms(seconds, http_request.request_context, is_first=is_asked)
        http_request.on_gone = infer(model, request, done, terms).cancel

    def rows(self, requests: Sequence[HttpRequest], model: "ServedModel") -> ReadRows:
        """Returns the requests whose rows have the shape of the first request, with the rows."""
        places: list[int] = []
        found: list[CutRequest] = []
        fits: dict[int, bool] = {}  # by form, because most requests share a form
        for place, http_request in enumerate(requests):
            request = _cut(http_request, self.options)
            if request is None or (found and request.kind != found[0].kind):
                continue
            form = id(request.form)
            if form not in fits:
                fits[form] = _fits(request, model)
            if fits[form]:
                places.append(place)
                found.append(request)
        if not found:
            return NOT_TOGETHER
        rows = join_data(found)
        sizes = [len(request.tensor.array) for request in found]
        return ReadRows(places, sizes, rows, [request.form for request in found])

    def replies(
        self,
        members: Sequence[BatchMember],
        sizes: Sequence[int],
        model: "ServedModel",
        columns: Mapping[str, npt.NDArray[Any] | None],
    ) -> Sequence[Reply] | None:
        """Returns the replies if all outputs are numbers; see `RestRowReader.replies`."""
        requests = [member.details for member in members]
        answers = infer_answers(model.name, str(model.version), columns, requests, sizes)
        if answers is None:
            return None
        return [
            _reply(member.responder, *answer)
            for member, answer in zip(members, answers, strict=True)
        ]

    def reply(
        self, http_request: HttpRequest, details: Any, model: Model, values: Mapping[str, Any]
    ) -> Reply:
        """Returns the JSON or binary reply that the request ``details`` asks for."""
        answer = answer_of(model, values, details, self._regions)
        return _reply(http_request, *infer_answer(answer, details))


def _reply(http_request: Any, body: bytes, length: int | None) -> Reply:
    headers = JSON
    if length is not None:
        headers = {"content-type": "application/octet-stream", _LENGTH.decode(): str(length)}
    return compress_reply(http_request, Reply(200, body, headers))


def _read(
    http_request: HttpRequest, model: Model, options: ServeOptions, regions: SharedRegions
) -> InferRequest:
    body = whole_body(http_request, options.expanded)
    length = _header_length(http_request)
    if length == 0:
        return _read_raw(body, model)
    read_region = regions.read if regions.is_allowed else None
    return read_infer(body, length, options.json, read_region)


def _cut(http_request: HttpRequest, options: ServeOptions) -> CutRequest | None:
    """Returns a request as form and data, or None if only `ask` can read the request."""
    try:
        length = _header_length(http_request)
    except Problem:
        return None
    return None if length == 0 else cut_infer(http_request.body, length, options.json)


def _header_length(http_request: HttpRequest) -> int | None:
    """Returns the number of bytes of the JSON part of a body, or None for the whole body."""
    text = http_request.head.named.get(_LENGTH)
    if text is None:
        return None
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        shown = shorten(text.decode("latin-1"))
        refuse(f"Inference-Header-Content-Length: {shown}; expected a number of bytes")
    return int(text)


def _fits(request: CutRequest, model: Model) -> bool:
    """Returns whether the model accepts the rows and the parameters of a request of this form."""
    (port,) = model.signature.inputs
    tensor, where = request.tensor, f"input {port.name!r}"
    try:
        check_request(request.form, model)
        check_item(port, tensor.array[0])
        model.options.check_elements(tensor.array.size, where)
        model.options.check_rows(len(tensor.array), where)
    except Problem:
        return False  # `ask` reports the problem to the client
    # The marks miss an escaped spelling of a name in the JSON. Other parameters are for `ask`, too.
    is_plain = request.form.parameters.keys() <= {"binary_data_output"} and not any(
        IN_REGION in output.parameters for output in request.form.outputs.values()
    )
    return tensor.name == port.name and is_plain


def _read_raw(body: bytes, model: Model) -> InferRequest:
    ports = model.signature.inputs
    if len(ports) != 1:
        refuse(f"a raw request is for a model with one input; {model.name!r} has {len(ports)}")
    tensor = describe_tensor(ports[0]) or TensorSpec(ports[0].name, DATATYPES["BYTES"], (None,))
    named = TensorSpec(ports[0].name, tensor.dtype, tensor.shape)
    return read_raw_input(body, named, datatype_of(tensor.dtype))
