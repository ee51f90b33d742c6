"""Converts ``batching_config.txt`` of TensorFlow Serving to the attributes of a node."""

import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.errors import ConfigError, did_you_mean
from modelflow.wire.problem import Problem
from modelflow.wire.proto import TF_SERVING

_log = logging.getLogger(__name__)

_MESSAGE = "tensorflow.serving.BatchingParameters"
# Keys of newer versions of TensorFlow Serving whose names resemble older keys.
_NEWER = frozenset(
    {
        "enable_large_batch_splitting",
        "max_execution_batch_size",
        "low_priority_max_batch_size",
        "low_priority_max_execution_batch_size",
        "low_priority_batch_timeout_micros",
        "low_priority_max_enqueued_batches",
        "low_priority_allowed_batch_sizes",
    }
)
_TOKEN = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|[^\s\w]""")
_OPENS, _CLOSES, _BEHIND_KEYS = ("{", "<", "["), ("}", ">", "]"), (":", "{", "<")


def read_batching_parameters(path: Path) -> Mapping[str, Any]:
    """Returns the attributes of an inference node for a file of batching parameters.

    - ``max_batch_size: {value: 32}`` becomes ``batch_size = 32``.
    - ``batch_timeout_micros`` becomes ``batch_timeout_ms``.
    - ``num_batch_threads`` becomes ``threads``.
    - ``max_enqueued_batches`` (counted in full batches) becomes ``queue_size`` (counted in items).
    - ``pad_variable_length_inputs`` becomes ``pad_variable``.
    - ``allowed_batch_sizes`` keeps its name.

    Keys of newer versions of TensorFlow Serving are left out, with a warning.

    Args:
        path: The file, a ``BatchingParameters`` in protobuf's text form.

    Raises:
        ConfigError: The file cannot be read, or is wrong. If an unknown key resembles a known
            key, the message suggests the known key.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read ({error}); expected a batching_config.txt"
        ) from error
    try:
        takes_unknown = _are_newer(_unknown_keys(text), path)
        found = TF_SERVING.parse_text(_MESSAGE, text, str(path), takes_unknown=takes_unknown)
    except Problem as problem:
        raise ConfigError(str(problem)) from problem
    return _attributes(found, str(path))


def _unknown_keys(text: str) -> list[str]:
    """Returns the top-level keys of a text in protobuf's text form that the message lacks."""
    known = TF_SERVING[_MESSAGE].DESCRIPTOR.fields_by_name
    depth, keys = 0, dict[str, None]()
    tokens = [token for token in _TOKEN.findall(text) if not token.startswith("#")]
    for token, following in itertools.pairwise([*tokens, ""]):
        if token in _OPENS:
            depth += 1
        elif token in _CLOSES:
            depth -= 1
        elif not depth and token.isidentifier() and following in _BEHIND_KEYS:
            keys[token] = None
    return [key for key in keys if key not in known]


def _are_newer(unknown: Sequence[str], path: Path) -> bool:
    """Returns whether all unknown keys belong to newer versions, and logs a warning for each.

    A key that resembles a known key is probably a typing error. Ignoring the key would leave the
    model without batching.
    """
    known = list(TF_SERVING[_MESSAGE].DESCRIPTOR.fields_by_name)
    newer = [key for key in unknown if key in _NEWER or not did_you_mean(key, known)]
    if len(newer) < len(unknown):
        return False
    for key in newer:
        _log.warning("%s: %s is not supported and is ignored", path, key)
    return True


def _attributes(found: Any, where: str) -> dict[str, Any]:
    size = _number(found, "max_batch_size", where, least=1)
    micros = _number(found, "batch_timeout_micros", where, least=0)
    batches = _number(found, "max_enqueued_batches", where, least=1)
    threads = _number(found, "num_batch_threads", where, least=1)
    sizes = list(found.allowed_batch_sizes)
    if sizes and (sizes != sorted(set(sizes)) or sizes[0] < 1 or size not in (None, sizes[-1])):
        raise ConfigError(
            f"{where}: allowed_batch_sizes: got {sizes}; expected rising numbers, the last one "
            f"max_batch_size ({'not given' if size is None else size})"
        )
    if size is None and sizes:
        size = sizes[-1]
    if batches is not None and size is None:
        raise ConfigError(
            f"{where}: max_enqueued_batches without max_batch_size; add max_batch_size"
        )
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
    """Returns the number under a key, or None if the key is missing."""
    if not found.HasField(key):
        return None
    value = int(getattr(found, key).value)
    if value < least:
        raise ConfigError(f"{where}: {key}: got {value}; expected {least} or more")
    return value
