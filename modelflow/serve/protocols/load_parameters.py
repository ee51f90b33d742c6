"""The parameters of a request to load a model: settings in place of the settings of the files."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from modelflow.errors import did_you_mean
from modelflow.serve.options import Tuning
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.json_reader import read_json
from modelflow.wire.problem import refuse, shorten

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
# Keys of Triton's model configuration.
_COUNTERPARTS = MappingProxyType(
    {
        "max_batch_size": "batch_size",
        "dynamic_batching": "batch_size and batch_timeout_ms",
        "instance_group": "threads",
    }
)


def read_load_parameters(parameters: Mapping[str, Any]) -> Tuning:
    """Returns the settings in the parameters of a request to load a model.

    Args:
        parameters: The parameters by name. ``config`` is the text of a JSON object with the keys
            ``batch_size``, ``batch_timeout_ms``, ``threads`` and ``queue_size``.

    Raises:
        Problem: A parameter or a key is unknown, or a value has another type.
    """
    for name in parameters:
        if name.startswith("file:"):
            refuse(
                f"load: parameter {shorten(name)}: files of clients are not loaded, only those of "
                "the server's sources; leave it out"
            )
        if name != "config":
            refuse(f"load: unknown parameter {shorten(name)}; expected config")
    text = parameters.get("config", "{}")
    found = read_json(text.encode(), JsonLimits()) if isinstance(text, str) else None
    if not isinstance(found, dict):
        refuse(f"load: config: got {shorten(text)}; expected the text of a JSON object")
    for key, value in found.items():
        if key not in _KEYS:
            near = did_you_mean(key, _KEYS)
            if key in _COUNTERPARTS:
                near = f", a key of Triton; its counterpart is {_COUNTERPARTS[key]}"
            refuse(f"load: config: unknown key {shorten(key)}{near} (keys: {', '.join(_KEYS)})")
        kind, expected = _KEYS[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            refuse(f"load: config: {key}: got {shorten(value)}; expected {expected}")
    return found
