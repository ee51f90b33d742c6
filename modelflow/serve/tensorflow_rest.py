"""TensorFlow Serving's REST interface: ``/v1/models/...``."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.compression import whole_body
from modelflow.serve.examples import classes_of, send_examples, values_of_regression
from modelflow.serve.gathering import RowGathering
from modelflow.serve.limits import ReadLimits
from modelflow.serve.model import Inference, Model
from modelflow.serve.patience import seconds_of
from modelflow.serve.predict_rows import PredictRows
from modelflow.serve.refusal import JSON, refusal_of, settle
from modelflow.serve.repository.models import Models
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.tensorflow_serving import (
    outputs_of,
    signatures_of,
    statuses_of,
)
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
)

__all__ = ["TensorflowRest"]

_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"


class TensorflowRest:
    """Answers predict, status and metadata requests."""

    def __init__(self, models: Models, limits: ReadLimits) -> None:
        """Takes what is served, and what a body may hold."""
        self._models = models
        self._limits = limits
        self._reader = PredictRows(limits, self._alone)
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}:predict", POST=self._predict).gathered(self._gathering),
            endpoint(f"{_MODEL}:classify", POST=partial(self._examples, CLASSIFY_METHOD)),
            endpoint(f"{_MODEL}:regress", POST=partial(self._examples, REGRESS_METHOD)),
            endpoint(f"{_MODEL}/metadata", GET=self._metadata),
            endpoint(_MODEL, GET=self._status),
        )

    def _gathering(self, path: Mapping[str, str]) -> RowGathering:
        return RowGathering(self._models, path, self._reader)

    def _predict(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        self._ask(self._models.find(**path), exchange)

    def _ask(self, model: Model, exchange: Exchange) -> None:
        seconds = seconds_of(exchange)
        model.expect(seconds)
        sent = whole_body(exchange, self._limits.decompressed)
        self._send(model, exchange, seconds, *read_predict(sent, self._limits.json))

    def _alone(self, exchange: Exchange, model: Model) -> None:
        """Answers a request that was gathered, and does not go with others."""
        try:
            self._ask(model, exchange)
        except Exception as error:  # noqa: BLE001 - the others are answered all the same
            exchange.answer(refusal_of(error))

    def _send(
        self,
        model: Model,
        exchange: Exchange,
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
        done = partial(settle, exchange, reply)
        exchange.on_gone = model.infer(arrays, done, seconds, exchange.visit).cancel

    def _examples(self, method: str, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        sent = whole_body(exchange, self._limits.decompressed)
        body = read_examples(sent, self._limits.json)
        model = model.with_signature(body.signature_name)
        done = partial(settle, exchange, _results, method)
        exchange.on_gone = send_examples(
            model, body.examples, done, seconds_of(exchange), exchange.visit
        ).cancel

    def _status(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        document = status_document(statuses_of(self._models, **path))
        exchange.answer(Reply(200, document, JSON))

    def _metadata(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        document = metadata_document(model.name, model.version, signatures_of(model))
        exchange.answer(Reply(200, document, JSON))


def _row_reply(call: Inference) -> Reply:
    return Reply(200, predict_answer(outputs_of(call), is_row=True), JSON)


def _column_reply(call: Inference) -> Reply:
    return Reply(200, predict_answer(outputs_of(call), is_row=False), JSON)


def _results(method: str, call: Inference) -> Reply:
    if method == REGRESS_METHOD:
        return Reply(200, regress_answer(values_of_regression(call)), JSON)
    return Reply(200, classify_answer(*classes_of(call)), JSON)
