"""Reads ``tf_serving_warmup_requests``, requests that TensorFlow Serving replays at the start.

The file contains TFRecords, each a ``tensorflow.serving.PredictionLog``. TensorFlow is not needed.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modelflow.errors import EngineError
from modelflow.wire.problem import Problem
from modelflow.wire.proto import TF_SERVING

MOST_RECORDS = 1000
"""TensorFlow Serving's own limit on the records of a warm-up file."""

_HEAD = struct.Struct("<QI")  # the length of a record, and a checksum of the length
_TAIL = 4  # a checksum of the record


def read_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields up to 1000 pairs from a file: the address for messages, and the ``PredictionLog``.

    Raises:
        EngineError: The file has no such records.
    """
    data = path.read_bytes()
    at = 0
    for place in range(MOST_RECORDS):
        if at == len(data):
            return
        where = f"warm-up requests {path}, record {place}"
        length = _HEAD.unpack_from(data, at)[0] if len(data) - at >= _HEAD.size else len(data)
        at += _HEAD.size
        if length > len(data) - at - _TAIL:
            raise EngineError(f"{where}: it is torn; expected TFRecords, undamaged")
        try:
            log = TF_SERVING.parse("tensorflow.serving.PredictionLog", data[at : at + length])
        except Problem as problem:
            raise EngineError(f"{where}: {problem}") from problem
        yield where, log
        at += length + _TAIL
