"""Reading ``tf_serving_warmup_requests``: what TensorFlow Serving replays before it is ready.

A TFRecord file of ``tensorflow.serving.PredictionLog`` messages. TensorFlow does not bring that
message; its fields are declared here with the numbers of ``prediction_log.proto`` and
``predict.proto`` of TensorFlow Serving.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

from modelflow.engine.model_file import looks_like
from modelflow.engine.tensorflow.library import load_tensorflow
from modelflow.errors import EngineError


def read_warmup_requests(path: Path, most: int) -> list[dict[str, npt.NDArray[Any]]]:
    """Returns the inputs of the recorded predict requests, at most ``most``.

    Raises:
        EngineError: the file is of another form, or has requests of another kind.
    """
    tf = load_tensorflow()
    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(path)).take(most)]
    except tf.errors.OpError as error:
        message = f"warm-up requests {path}: {looks_like(path)}; expected TFRecords, undamaged"
        raise EngineError(message) from error
    return [_inputs(path, record, tf) for record in records]


@cache
def prediction_log() -> Any:
    """Returns the message class ``PredictionLog``, with its predict requests."""
    load_tensorflow()
    from google.protobuf import (  # type: ignore[import-untyped]
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )
    from tensorflow.core.framework import tensor_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="modelflow/prediction_log.proto", package="modelflow.serving", syntax="proto3"
    )
    file.dependency.append(tensor_pb2.DESCRIPTOR.name)
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, str, bool]) -> Any:
        added = file.message_type.add(name=name)
        for field, number, kind, is_repeated in fields:
            added.field.add(
                name=field,
                number=number,
                type=kinds.TYPE_MESSAGE if kind else kinds.TYPE_STRING,
                type_name=kind or None,
                label=kinds.LABEL_REPEATED if is_repeated else kinds.LABEL_OPTIONAL,
            )
        return added

    own = ".modelflow.serving."
    request = message("PredictRequest", ("inputs", 2, f"{own}PredictRequest.InputsEntry", True))
    entry = request.nested_type.add(name="InputsEntry")
    entry.options.map_entry = True
    text, nested, one = kinds.TYPE_STRING, kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, type=text, label=one)
    entry.field.add(
        name="value", number=2, type=nested, type_name=".tensorflow.TensorProto", label=one
    )
    message("PredictLog", ("request", 1, f"{own}PredictRequest", False))
    message("PredictionLog", ("predict_log", 6, f"{own}PredictLog", False))
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("modelflow.serving.PredictionLog")
    )


def _inputs(path: Path, record: bytes, tf: Any) -> dict[str, npt.NDArray[Any]]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    log = prediction_log()()
    try:
        log.ParseFromString(record)
    except DecodeError as error:
        message = f"warm-up requests {path}: a record that is no PredictionLog"
        raise EngineError(message) from error
    if not log.HasField("predict_log"):
        message = (
            f"warm-up requests {path}: a record without a predict_log; only predict requests can "
            "be replayed"
        )
        raise EngineError(message)
    tensors = log.predict_log.request.inputs
    return {name: tf.make_ndarray(tensors[name]) for name in tensors}
