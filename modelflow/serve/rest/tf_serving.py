"""TensorFlow Serving's REST interface: ``/v1/models/...``."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.errors import ModelflowError
from modelflow.graph.graph_port import GraphPort
from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest
from modelflow.serve.access.error_reply import JSON, refusal, refusal_of, settle, whole_body
from modelflow.serve.access.router import Endpoint, endpoint
from modelflow.serve.options import ServeOptions
from modelflow.serve.protocols.tf_serving import (
    classes_of,
    outputs_of,
    send_examples,
    signatures_of,
    statuses_of,
    values_of_regression,
)
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.model import Inference, Model
from modelflow.serve.requests.pending import RowReader
from modelflow.serve.requests.rows import as_tensor, check_item, values_of
from modelflow.serve.requests.status import internal_problem, problem_of
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


class RowGatherer:
    """Small requests of one path, a `RequestGatherer`. For the server's thread.

    Attributes:
        requests: Those that have come in this turn of the loop.
    """

    def __init__(self, models: Models, path: Mapping[str, str], reader: RowReader) -> None:
        """Takes what is served, what the path names of it, and what reads the requests."""
        self.requests: list[HttpRequest] = []
        self._models = models
        self._path = path
        self._reader = reader

    def begin(self) -> None:
        """Has `requests` read when this turn of the loop is over; called for the first."""
        asyncio.get_running_loop().call_soon(self._end)

    def add(self, http_request: HttpRequest) -> None:
        """Takes a request."""
        if not self.requests:
            self.begin()
        self.requests.append(http_request)

    def _end(self) -> None:
        requests, self.requests = self.requests, []
        requests = [http_request for http_request in requests if not http_request.is_over]
        try:
            model = self._models.find(**self._path)
            model.receive(requests, self._reader)
        except Exception as error:  # noqa: BLE001 - of whatever kind, nobody is left waiting
            reply = refusal_of(error)
            for http_request in requests:
                http_request.answer(reply)


_WHERE = "'instances'"


class PredictRows:
    """Reads and answers them; a `modelflow.serve.requests.pending.RowReader`.

    What is not plainly a row that fits is left to who reads one request at a time, who says what is
    wrong with it: nothing is refused here.
    """

    def __init__(self, options: ServeOptions, alone: Callable[[HttpRequest, Model], None]) -> None:
        """Takes what a body may hold, and who has a model answer a request by itself."""
        self._options = options
        self.alone = alone
        self.reply = partial(Reply, 200, headers=JSON)
        self.refusal = refusal

    def rows(
        self, bodies: Sequence[bytes], model: "ServedModel"
    ) -> tuple[Sequence[int], npt.NDArray[Any]]:
        """Returns which bodies ask for one row that fits, and these rows, ``(count, ...)``."""
        found = read_rows(bodies)
        if None not in found:
            places: Sequence[int] = range(len(found))
        else:
            places = [place for place, row in enumerate(found) if row is not None]
            found = [found[place] for place in places]
        (port,) = model.signature.inputs
        try:
            array = array_of(found, model.unread.row_type, _WHERE)
            check_item(port, array[0])
            model.options.check_elements(array.size, _WHERE)
            model.options.check_rows(len(array), _WHERE)
        except (Problem, IndexError):  # one is wrong, or they differ; or none is here
            return (), np.empty(0)
        limits = self._options.json
        # Of rows without numbers nobody has counted the lists.
        if array.ndim >= limits.depth or not 0 < array.size <= limits.elements * len(array):
            return (), array
        return places, array

    def answers(
        self, model: "ServedModel", found: Mapping[str, Sequence[Buffer]]
    ) -> Sequence[bytes | Problem]:
        """Returns the document that answers each row."""
        columns, ports = {}, model.outputs
        for name, buffers in found.items():
            column = column_of(buffers) if ports[name].is_batched else None
            if column is None:
                break
            columns[name] = column
        else:
            texts = rows_answers(columns)
            if texts is not None:
                return texts
        count = max(map(len, found.values()), default=0)
        return [
            _answer(ports, {name: buffers[place] for name, buffers in found.items()})
            for place in range(count)
        ]


def column_of(buffers: Sequence[Buffer]) -> npt.NDArray[Any] | None:
    """Returns what came out of an output as an array; None: it is not numbers of one shape."""
    data = []
    for buffer in buffers:
        if buffer.error is not None:
            return None
        data.append(buffer.data)
    first = data[0]
    if len(set(map(type, data))) > 1 or not isinstance(first, np.ndarray | np.generic | float):
        return None
    if isinstance(first, np.ndarray):
        for one in data:
            if one.shape != first.shape or one.dtype != first.dtype:
                return None
    return np.array(data)


def _answer(ports: Mapping[str, GraphPort], row: Mapping[str, Buffer]) -> bytes | Problem:
    """Returns the document that answers a row, or why there is none."""
    outputs = {}
    try:
        for name, buffer in row.items():
            if buffer.error is not None:
                return problem_of(buffer.error) or internal_problem(buffer.error)
            value = values_of(ports[name], (buffer,))
            outputs[name] = value if isinstance(value, np.ndarray) else as_tensor(value)
        return predict_answer(outputs, is_row=True)
    except (Problem, ModelflowError) as error:
        return problem_of(error) or internal_problem(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are answered
        return internal_problem(error)


_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"


class TensorflowRest:
    """Answers predict, classify, regress, status and metadata requests."""

    def __init__(self, models: Models, options: ServeOptions) -> None:
        """Takes what is served, and what a body may hold."""
        self._models = models
        self._options = options
        self._reader = PredictRows(options, self._alone)
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}:predict", POST=self._predict).gather_small(self._gathering),
            endpoint(f"{_MODEL}:classify", POST=partial(self._examples, CLASSIFY_METHOD)),
            endpoint(f"{_MODEL}:regress", POST=partial(self._examples, REGRESS_METHOD)),
            endpoint(f"{_MODEL}/metadata", GET=self._metadata),
            endpoint(_MODEL, GET=self._status),
        )

    def _gathering(self, path: Mapping[str, str]) -> RowGatherer:
        return RowGatherer(self._models, path, self._reader)

    def _predict(self, http_request: HttpRequest, path: Mapping[str, str]) -> None:
        self._ask(self._models.find(**path), http_request)

    def _ask(self, model: Model, http_request: HttpRequest) -> None:
        seconds = seconds_of(http_request)
        model.expect(seconds)
        sent = whole_body(http_request, self._options.expanded)
        self._send(model, http_request, seconds, *read_predict(sent, self._options.json))

    def _alone(self, http_request: HttpRequest, model: Model) -> None:
        """Answers a request that was gathered, and does not go with others."""
        try:
            self._ask(model, http_request)
        except Exception as error:  # noqa: BLE001 - the others are answered all the same
            http_request.answer(refusal_of(error))

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
    return Reply(200, predict_answer(outputs_of(call), is_row=True), JSON)


def _column_reply(call: Inference) -> Reply:
    return Reply(200, predict_answer(outputs_of(call), is_row=False), JSON)


def _results(method: str, call: Inference) -> Reply:
    if method == REGRESS_METHOD:
        return Reply(200, regress_answer(values_of_regression(call)), JSON)
    return Reply(200, classify_answer(*classes_of(call)), JSON)
