"""``batching_config.txt``: how a TensorFlow Serving has been told to batch, as node attributes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelflow.errors import ConfigError
from modelflow.wire.problem import Problem
from modelflow.wire.tf_serving.messages import TF_SERVING

__all__ = ["read_batching_parameters"]

_MESSAGE = "tensorflow.serving.BatchingParameters"


def read_batching_parameters(path: Path) -> Mapping[str, Any]:
    """Returns the attributes of an inference node that say the same.

    ``max_batch_size: {value: 32}`` is ``batch_size = 32``; ``batch_timeout_micros`` is
    ``batch_timeout_ms``, ``num_batch_threads`` is ``threads``, ``max_enqueued_batches`` (of full
    batches) is ``queue_size``, ``pad_variable_length_inputs`` is ``pad_variable``; and
    ``allowed_batch_sizes`` has its own name.

    Args:
        path: The file, a ``BatchingParameters`` in protobuf's text form.

    Raises:
        ConfigError: it cannot be read, or is wrong: an unknown key is named with the nearest one.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read ({error}); expected a batching_config.txt"
        raise ConfigError(message) from error
    try:
        found = TF_SERVING.parse_text(_MESSAGE, text, str(path))
    except Problem as problem:
        raise ConfigError(str(problem)) from problem
    return _attributes(found, str(path))


def _attributes(found: Any, where: str) -> dict[str, Any]:
    size = _number(found, "max_batch_size", where, least=1)
    micros = _number(found, "batch_timeout_micros", where, least=0)
    batches = _number(found, "max_enqueued_batches", where, least=1)
    threads = _number(found, "num_batch_threads", where, least=1)
    sizes = list(found.allowed_batch_sizes)
    if sizes and (sizes != sorted(set(sizes)) or sizes[0] < 1 or size not in (None, sizes[-1])):
        message = (
            f"{where}: allowed_batch_sizes: got {sizes}; expected rising numbers, the last one "
            f"max_batch_size ({'not given' if size is None else size})"
        )
        raise ConfigError(message)
    if size is None and sizes:
        size = sizes[-1]
    if batches is not None and size is None:
        message = f"{where}: max_enqueued_batches without max_batch_size; add how large they are"
        raise ConfigError(message)
    attributes = {
        "batch_size": size,
        "batch_timeout_ms": None if micros is None else micros / 1e3,
        "threads": threads,
        "queue_size": None if batches is None or size is None else batches * size,
        "allowed_batch_sizes": sizes or None,
        "pad_variable": True if found.pad_variable_length_inputs else None,
    }
    return {key: value for key, value in attributes.items() if value is not None}


def _number(found: Any, key: str, where: str, *, least: int) -> int | None:
    """The number under a key; None: it is not said."""
    if not found.HasField(key):
        return None
    value = int(getattr(found, key).value)
    if value < least:
        message = f"{where}: {key}: got {value}; expected {least} or more"
        raise ConfigError(message)
    return value
