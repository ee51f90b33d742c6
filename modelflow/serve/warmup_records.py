"""Runs recorded requests (``assets.extra/tf_serving_warmup_requests``) to warm a version up."""

import logging
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
from modelflow.wire.tf_serving.predict_message import predict_arrays
from modelflow.wire.tf_serving.warmup_records import read_records

logger = logging.getLogger(__name__)

Arrays = Mapping[str, "npt.NDArray[Any]"]


def warm_up(model: ServedModel, path: Path) -> None:
    """Runs every recorded request on its signature, and waits for the replies.

    Raises:
        EngineError: The file is damaged, or a request fails. The version must not be served.
    """
    for where, log in read_records(path):
        try:
            for one, arrays in _requests(model, log, where):
                _run(one, arrays)
        except (Problem, ModelflowError) as error:
            raise EngineError(f"{where}: {error}") from error
    logger.info("model %r, version %d: warmed up by %s", model.name, model.version, path)


def _requests(model: ServedModel, log: Any, where: str) -> Iterator[tuple[ServedModel, Arrays]]:
    """Yields each signature that a record is for, with its input arrays."""
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
        raise EngineError(
            f"{where}: a record of {kind or 'nothing'}; expected predict, classify, regress"
        )


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
