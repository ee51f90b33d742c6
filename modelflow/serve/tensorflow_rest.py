"""TensorFlow Serving's REST interface: ``/v1/models/...``."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.graph.signature import GraphPort
from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.call import Call
from modelflow.serve.models import Models
from modelflow.serve.patience import seconds_of
from modelflow.serve.refusal import JSON, refusal
from modelflow.serve.router import Endpoint, endpoint
from modelflow.serve.tensors import as_tensor, served_tensor
from modelflow.wire.problem import Problem
from modelflow.wire.tensor import TensorSpec
from modelflow.wire.tf_serving.documents import (
    SignatureInfo,
    metadata_document,
    status_document,
)
from modelflow.wire.tf_serving.predict import predict_answer, read_predict

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SIGNATURE", "TensorflowRest"]

SIGNATURE = "serving_default"
"""The name of a graph's only signature."""

_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"


class TensorflowRest:
    """Answers predict, status and metadata requests."""

    def __init__(self, models: Models) -> None:
        """Takes what is served."""
        self._models = models
        self.endpoints: tuple[Endpoint, ...] = (
            endpoint(f"{_MODEL}:predict", POST=self._predict),
            endpoint(f"{_MODEL}:(?:classify|regress)", POST=self._no_signature),
            endpoint(f"{_MODEL}/metadata", GET=self._metadata),
            endpoint(_MODEL, GET=self._status),
        )

    def _predict(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        body = read_predict(exchange.body)
        if body.signature_name not in ("", SIGNATURE):
            message = f'Serving signature name: "{body.signature_name}" not found in signature def'
            raise Problem(message)
        types = {port.name: _dtype(port) for port in model.signature.inputs}
        arrays = body.arrays(types)
        done = partial(_answer, exchange, is_row=body.is_row)
        exchange.on_gone = model.infer(arrays, done, seconds_of(exchange)).cancel

    def _no_signature(self, _: Exchange, path: Mapping[str, str]) -> None:
        self._models.find(**path)
        message = "Expected classification or regression signature; the model has predict alone"
        raise Problem(message)

    def _status(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        found = self._models.statuses(**path)
        exchange.answer(Reply(200, status_document(found), JSON))

    def _metadata(self, exchange: Exchange, path: Mapping[str, str]) -> None:
        model = self._models.find(**path)
        info = SignatureInfo(_tensors(model.signature.inputs), _tensors(model.signature.outputs))
        document = metadata_document(model.name, model.version, {SIGNATURE: info})
        exchange.answer(Reply(200, document, JSON))


def _answer(exchange: Exchange, call: Call, *, is_row: bool) -> None:
    try:
        outputs = {name: as_tensor(value) for name, value in call.outputs().items()}
        body = predict_answer(outputs, is_row=is_row)
    except Problem as problem:
        exchange.answer(refusal(problem))
    else:
        exchange.answer(Reply(200, body, JSON))


def _dtype(port: GraphPort) -> "np.dtype[Any] | None":
    return None if port.tensor is None else port.tensor.dtype


def _tensors(ports: tuple[GraphPort, ...]) -> dict[str, TensorSpec | None]:
    return {port.name: served_tensor(port) for port in ports}
