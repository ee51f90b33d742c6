"""Recorded requests (``assets.extra/tf_serving_warmup_requests``), run before a version serves.

The file is of TFRecords, each a ``tensorflow.serving.PredictionLog``; no TensorFlow is needed.
"""

import logging
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.errors import EngineError, ModelflowError
from modelflow.serve.requests.rows import items_of
from modelflow.serve.requests.served_model import ServedModel
from modelflow.wire.problem import Problem
from modelflow.wire.tf_serving.examples import examples_of_input, serialize
from modelflow.wire.tf_serving.messages import TF_SERVING
from modelflow.wire.tf_serving.predict_message import predict_arrays

logger = logging.getLogger(__name__)

_MOST = 1000  # TensorFlow Serving's own bound
_HEAD = struct.Struct("<QI")  # the length of a record, and a checksum of that
_TAIL = 4  # a checksum of the record

Arrays = Mapping[str, "npt.NDArray[Any]"]


def warm_up(model: ServedModel, path: Path) -> None:
    """Runs every recorded request on the signature that it is for; waits for the answers.

    Raises:
        EngineError: the file is damaged, or a request fails: the version must not be served.
    """
    for place, log in enumerate(read_records(path)):
        where = f"warm-up requests {path}, record {place}"
        try:
            for one, arrays in _requests(model, log, where):
                _run(one, arrays)
        except (Problem, ModelflowError) as error:
            message = f"{where}: {error}"
            raise EngineError(message) from error
    logger.info("model %r, version %d: warmed up by %s", model.name, model.version, path)


def read_records(path: Path) -> Iterator[Any]:
    """Gives the ``PredictionLog`` of each record, at most 1000.

    Raises:
        EngineError: it is no file of such records.
    """
    data = path.read_bytes()
    at = 0
    for place in range(_MOST):
        if at == len(data):
            return
        where = f"warm-up requests {path}, record {place}"
        if len(data) - at < _HEAD.size:
            raise _make_torn_error(where)
        length, _ = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if length > len(data) - at - _TAIL:
            raise _make_torn_error(where)
        try:
            yield TF_SERVING.parse("tensorflow.serving.PredictionLog", data[at : at + length])
        except Problem as problem:
            message = f"{where}: {problem}"
            raise EngineError(message) from problem
        at += length + _TAIL


def _requests(model: ServedModel, log: Any, where: str) -> Iterator[tuple[ServedModel, Arrays]]:
    """Gives the signatures that a record is for, with what it has for each."""
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        one = model.with_signature(request.model_spec.signature_name)
        yield one, predict_arrays(request, one.types)
    elif kind in ("classify_log", "regress_log"):
        request = getattr(log, kind).request
        one = model.with_signature(request.model_spec.signature_name)
        yield one, _examples(one, request.input)
    elif kind == "multi_inference_log":
        request = log.multi_inference_log.request
        for task in request.tasks:
            one = model.with_signature(task.model_spec.signature_name)
            yield one, _examples(one, request.input)
    else:
        message = f"{where}: a record of {kind or 'nothing'}; expected predict, classify, regress"
        raise EngineError(message)


def _examples(model: ServedModel, message: Any) -> Arrays:
    texts = [serialize(example) for example in examples_of_input(message)]
    array = np.empty(len(texts), np.object_)
    array[:] = texts
    return {model.signature.inputs[0].name: array}


def _run(model: ServedModel, arrays: Arrays) -> None:
    stream = model.flow.create_stream_io()
    items = items_of(model.signature, arrays) or model.triggers
    for buffers in stream.exchange(items).values():
        for buffer in buffers:
            if buffer.error is not None:
                raise buffer.error


def _make_torn_error(where: str) -> EngineError:
    return EngineError(f"{where}: it is torn; expected TFRecords, undamaged")
