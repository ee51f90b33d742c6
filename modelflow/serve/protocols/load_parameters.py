"""The parameters of a request to load a model: settings in place of the settings of the files."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from modelflow.errors import did_you_mean
from modelflow.serve.options import Tuning
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_reader import read_json
from modelflow.wire.problem import Problem, refuse, shorten

_WHOLE = "a whole number"
# The keys, which are attributes of a node, and their values.
_KEYS: Mapping[str, tuple[type | tuple[type, ...], str]] = MappingProxyType(
    {
        "batch_size": (int, _WHOLE),
        "batch_timeout_ms": ((int, float), "a number"),
        "threads": (int, _WHOLE),
        "queue_size": (int, _WHOLE),
    }
)
_LONGEST = 10  # digits of a number in a text
_TRITONS_SIZE = "max_batch_size"  # Triton's name for ``batch_size``
# Other keys of Triton's model configuration.
_COUNTERPARTS = MappingProxyType(
    {"dynamic_batching": "batch_size and batch_timeout_ms", "instance_group": "threads"}
)


def read_load_parameters(name: str, parameters: Mapping[str, Any]) -> Tuning:
    """Returns the settings in the parameters of a request to load a model.

    Args:
        name: The name of the model.
        parameters: The parameters by name. ``config`` is the text of a JSON object with the keys
            ``batch_size``, ``batch_timeout_ms``, ``threads`` and ``queue_size``. Triton's key
            ``max_batch_size`` is ``batch_size``, and its value may be a text of digits.

    Raises:
        Problem: A parameter or a key is unknown, or a value has another type.
    """
    try:
        return _read(parameters)
    except Problem as problem:
        message = f"failed to load {shorten(name)}: {problem}"
        raise Problem(message, problem.code) from problem


def _read(parameters: Mapping[str, Any]) -> Tuning:
    for name in parameters:
        if name.startswith("file:"):
            refuse(
                f"parameter {shorten(name)}: files of clients are not loaded, only those of "
                "the server's sources; leave it out"
            )
        if name != "config":
            refuse(f"unknown parameter {shorten(name)}; expected config")
    text = parameters.get("config", "{}")
    found = read_json(text.encode(), JsonLimits()) if isinstance(text, str) else None
    if not isinstance(found, dict):
        refuse(f"config: got {shorten(text)}; expected the text of a JSON object")
    if _TRITONS_SIZE in found:
        size = found.pop(_TRITONS_SIZE)
        if "batch_size" in found:
            refuse(f"config: {_TRITONS_SIZE} and batch_size; expected one of them")
        found["batch_size"] = int(size) if _is_number(size) else size
    for key, value in found.items():
        _check(key, value)
    return found


def _check(key: str, value: object) -> None:
    if key not in _KEYS:
        near = did_you_mean(key, _KEYS)
        if key in _COUNTERPARTS:
            near = f", a key of Triton; its counterpart is {_COUNTERPARTS[key]}"
        refuse(f"config: unknown key {shorten(key)}{near} (keys: {', '.join(_KEYS)})")
    kind, expected = _KEYS[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        refuse(f"config: {key}: got {shorten(value)}; expected {expected}")


def _is_number(value: object) -> bool:
    """Returns whether a value is a text of digits, as protobuf's JSON may write a number."""
    return isinstance(value, str) and value.isdecimal() and len(value) < _LONGEST
