"""TensorFlow Serving's REST interface: ``/v1/models/...``."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, settle, whole_body
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
from modelflow.serve.requests.model import Inference, Model, Terms
from modelflow.serve.requests.pending import NOT_TOGETHER, ReadRows
from modelflow.serve.requests.request_batch import BatchMember
from modelflow.serve.requests.rows import check_item
from modelflow.serve.requests.time_limits import PRIORITY, is_first
from modelflow.serve.rest.row_reader import RestRowReader, terms_of
from modelflow.wire.json_to_array import array_of
from modelflow.wire.problem import refuse
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


class PredictReader(RestRowReader):
    """The reader of predict requests, which reads several requests with plain rows together."""

    def ask(self, http_request: HttpRequest, model: Model, seconds: float | None) -> None:
        """Reads one request and sends its inputs to the model; see `RestRowReader.ask`."""
        is_asked = PRIORITY in http_request.head.named and is_first(http_request)
        model.expect(seconds, is_first=is_asked)
        sent = whole_body(http_request, self.options.expanded)
        signature, is_row, value = read_predict(sent, self.options.json)
        model = model.with_signature(signature)
        arrays = (arrays_of_rows if is_row else arrays_of_columns)(value, model.types)
        done = partial(self.answer, http_request, is_row)
        terms = Terms(seconds, http_request.request_context, is_first=is_asked)
        http_request.on_gone = model.infer(arrays, done, terms).cancel

    def rows(self, requests: Sequence[HttpRequest], model: "ServedModel") -> ReadRows:
        """Returns the requests with plain rows, and the rows; see `RowReader.rows`."""
        read = read_rows([http_request.body for http_request in requests])
        found = [rows for rows in read if rows]
        places: Sequence[int] = range(len(read))
        if len(found) < len(read):
            places = [place for place, rows in enumerate(read) if rows]
        if not found:
            return NOT_TOGETHER
        sizes, values = [*map(len, found)], [*chain.from_iterable(found)]
        (port,) = model.signature.inputs
        most = max(sizes)
        array = array_of(values, model.types[port.name], _WHERE)
        check_item(port, array[0])
        elements = most * array[0].size
        model.options.check_elements(elements, _WHERE)
        model.options.check_rows(most, _WHERE)
        # `read_rows` does not check the JSON limits. After a refusal, `ask` reads each
        # request alone and checks the limits.
        limits = self.options.json
        if array.ndim >= limits.depth or not 0 < elements <= limits.elements:
            refuse(f"{_WHERE}: the JSON limits are not checked yet")
        return ReadRows(places, sizes, array, [True] * len(places))

    def replies(
        self,
        members: Sequence[BatchMember],  # noqa: ARG002 - the reply does not depend on it
        sizes: Sequence[int],
        model: "ServedModel",  # noqa: ARG002
        columns: Mapping[str, npt.NDArray[Any] | None],
    ) -> Sequence[Reply] | None:
        """Returns the replies if the only output is numbers; see `RestRowReader.replies`."""
        texts = rows_answers(columns, sizes)
        return None if texts is None else [Reply(200, text, JSON) for text in texts]

    def reply(
        self,
        http_request: HttpRequest,  # noqa: ARG002 - the reply does not depend on it
        details: Any,
        model: Model,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> Reply:
        """Returns the JSON reply, in rows if ``details`` is true, or else in columns."""
        return Reply(200, predict_answer(tensors_of(values), is_row=details), JSON)


_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"


class TensorflowRest:
    """The REST endpoints of TensorFlow Serving."""

    def __init__(self, models: Models, options: ServeOptions) -> None:
        """Stores the models, and the limits on bodies."""
        self._models = models
        self._options = options
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}:predict", POST=PredictReader(models.route, options).receive),
            endpoint(f"{_MODEL}:classify", POST=partial(self._examples, CLASSIFY_METHOD)),
            endpoint(f"{_MODEL}:regress", POST=partial(self._examples, REGRESS_METHOD)),
            endpoint(f"{_MODEL}/metadata", GET=self._metadata),
            endpoint(_MODEL, GET=self._status),
        )

    def _examples(self, method: str, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model = self._models.route(**path)
        sent = whole_body(http_request, self._options.expanded)
        body = read_examples(sent, self._options.json)
        model = model.with_signature(body.signature_name)
        done = partial(settle, http_request, _results, method)
        http_request.on_gone = send_examples(
            model, body.examples, done, terms_of(http_request)
        ).cancel

    def _status(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        document = status_document(statuses_of(self._models, **path))
        http_request.answer(Reply(200, document, JSON))

    def _metadata(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        document = metadata_document(model.name, model.version, signatures_of(model))
        http_request.answer(Reply(200, document, JSON))


def _results(method: str, call: Inference) -> Reply:
    if method == REGRESS_METHOD:
        return Reply(200, regress_answer(values_of_regression(call)), JSON)
    return Reply(200, classify_answer(*classes_of(call)), JSON)
