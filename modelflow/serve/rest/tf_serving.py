"""TensorFlow Serving's REST interface: ``/v1/models/...``."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import (
    JSON,
    answer_alone,
    is_small,
    refusal,
    settle,
    whole_body,
)
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.options import ServeOptions
from modelflow.serve.protocols.tf_serving import (
    classes_of,
    send_examples,
    signatures_of,
    statuses_of,
    tensors_of,
    values_of_regression,
)
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model
from modelflow.serve.requests.pending import NOT_TOGETHER, ReadRows
from modelflow.serve.requests.request_batch import BatchMember
from modelflow.serve.requests.rows import check_item, column_of, split_values
from modelflow.serve.requests.status import attempt
from modelflow.serve.requests.time_limits import seconds_of
from modelflow.wire.json_to_array import array_of
from modelflow.wire.problem import Problem
from modelflow.wire.tf_serving.documents import (
    CLASSIFY_METHOD,
    REGRESS_METHOD,
    metadata_document,
    status_document,
)
from modelflow.wire.tf_serving.examples import classify_answer, read_examples, regress_answer
from modelflow.wire.tf_serving.predict import (
    arrays_of_columns,
    arrays_of_rows,
    predict_answer,
    read_predict,
    read_rows,
    rows_answers,
)

if TYPE_CHECKING:
    from modelflow.serve.requests.served_model import ServedModel


_WHERE = "'instances'"


class PredictRows:
    """Reads requests of rows without names; a `modelflow.serve.requests.pending.RowReader`."""

    refusal = staticmethod(refusal)

    def __init__(
        self,
        options: ServeOptions,
        alone: Callable[[HttpRequest, Model, float | None], None],
    ) -> None:
        """Takes what a body may hold, and who has a model answer a request by itself."""
        self._limits = options.json
        self.alone = alone

    def rows(self, requests: Sequence[HttpRequest], model: "ServedModel") -> ReadRows:
        """Returns which requests ask for rows that fit, and these."""
        found = read_rows([http_request.body for http_request in requests])
        places = [place for place, rows in enumerate(found) if rows]
        sizes = [len(rows) for rows in found if rows]
        values = [row for rows in found if rows for row in rows]
        (port,) = model.signature.inputs
        most = max(sizes, default=0)
        try:
            array = array_of(values, model.unread.row_type, _WHERE)
            check_item(port, array[0])
            elements = most * array[0].size
            model.options.check_elements(elements, _WHERE)
            model.options.check_rows(most, _WHERE)
        except (Problem, IndexError):  # one is wrong, or they differ; or none is here
            return NOT_TOGETHER
        # Of rows without numbers nobody has counted the lists.
        if array.ndim >= self._limits.depth or not 0 < elements <= self._limits.elements:
            return NOT_TOGETHER
        return ReadRows(places, sizes, array, [None] * len(places))

    def answers(
        self,
        members: Sequence[BatchMember],
        model: "ServedModel",
        found: Mapping[str, Sequence[Buffer]],
    ) -> Sequence[Reply | Problem]:
        """Returns the document that answers each request."""
        columns, ports = {}, model.outputs
        for name, buffers in found.items():
            column = column_of(buffers) if ports[name].is_batched else None
            if column is None:
                break
            columns[name] = column
        else:
            texts = rows_answers(columns, [member.size for member in members])
            if texts is not None:
                return [Reply(200, text, JSON) for text in texts]
        sizes = [member.size for member in members]
        return [
            attempt(_rows_reply, values) if not isinstance(values, Problem) else values
            for values in split_values(ports, sizes, found)
        ]


def _rows_reply(values: Mapping[str, Any]) -> Reply:
    return Reply(200, predict_answer(tensors_of(values), is_row=True), JSON)


_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"


class TensorflowRest:
    """Answers predict, classify, regress, status and metadata requests."""

    def __init__(self, models: Models, options: ServeOptions) -> None:
        """Takes what is served, and what a body may hold."""
        self._models = models
        self._options = options
        self._reader = PredictRows(options, partial(answer_alone, self._ask))
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}:predict", POST=self._predict),
            endpoint(f"{_MODEL}:classify", POST=partial(self._examples, CLASSIFY_METHOD)),
            endpoint(f"{_MODEL}:regress", POST=partial(self._examples, REGRESS_METHOD)),
            endpoint(f"{_MODEL}/metadata", GET=self._metadata),
            endpoint(_MODEL, GET=self._status),
        )

    def _predict(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model, seconds = self._models.find(**path), seconds_of(http_request)
        if is_small(http_request):
            model.receive(http_request, self._reader, seconds)
        else:
            self._ask(http_request, model, seconds)

    def _ask(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        model.expect(seconds)
        sent = whole_body(http_request, self._options.expanded)
        self._send(model, http_request, seconds, *read_predict(sent, self._options.json))

    def _send(
        self,
        model: Model,
        http_request: HttpRequest,
        seconds: float | None,
        signature: str,
        is_row: bool,
        value: Any,
    ) -> None:
        model = model.with_signature(signature)
        if is_row:
            arrays, reply = arrays_of_rows(value, model.types), _row_reply
        else:
            arrays, reply = arrays_of_columns(value, model.types), _column_reply
        done = partial(settle, http_request, reply)
        http_request.on_gone = model.infer(
            arrays, done, seconds, http_request.request_context
        ).cancel

    def _examples(self, method: str, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        sent = whole_body(http_request, self._options.expanded)
        body = read_examples(sent, self._options.json)
        model = model.with_signature(body.signature_name)
        done = partial(settle, http_request, _results, method)
        http_request.on_gone = send_examples(
            model, body.examples, done, seconds_of(http_request), http_request.request_context
        ).cancel

    def _status(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        document = status_document(statuses_of(self._models, **path))
        http_request.answer(Reply(200, document, JSON))

    def _metadata(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        document = metadata_document(model.name, model.version, signatures_of(model))
        http_request.answer(Reply(200, document, JSON))


def _row_reply(call: Inference) -> Reply:
    return _rows_reply(call.outputs())


def _column_reply(call: Inference) -> Reply:
    return Reply(200, predict_answer(tensors_of(call.outputs()), is_row=False), JSON)


def _results(method: str, call: Inference) -> Reply:
    if method == REGRESS_METHOD:
        return Reply(200, regress_answer(values_of_regression(call)), JSON)
    return Reply(200, classify_answer(*classes_of(call)), JSON)
