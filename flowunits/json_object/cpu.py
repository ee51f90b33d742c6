"""``json_object`` on the CPU."""

import json
from typing import Any

from flowunits.json_object import PORTS, JsonObjectOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.errors import did_you_mean
from modelflow.files.json_value import json_value


class JsonObject(FlowUnit):
    """Stores each value under its key, in the order of the options."""

    def open(self, config: JsonObjectOptions) -> None:
        """Stores the options."""
        self._fields, self._meta = config.fields, config.meta
        self._ports = PORTS[: len(config.fields)]
        self._is_text = config.format == "json"

    def process(self, ctx: Context) -> None:
        """Processes each row separately.

        Raises:
            ValueError: the number of inputs differs from the number of keys.
        """
        if tuple(port for port in PORTS if port in ctx.inputs) != self._ports:
            keys = ", ".join(self._fields)
            raise ValueError(
                f"got {', '.join(ctx.inputs)} for the keys {keys}; expected that "
                f"{', '.join(self._ports)} are connected"
            )
        ctx.emit_each(self._object, *self._ports)

    def _object(self, *buffers: Buffer) -> bytes | dict[str, Any]:
        made = {}
        for key, port, buffer in zip(self._fields, self._ports, buffers, strict=True):
            made[key] = _value(buffer.data, port)
        for key in self._meta:
            made[key] = _value(_meta_of(buffers[0], key), f"{PORTS[0]}: meta {key!r}")
        if not self._is_text:
            return made
        try:
            return json.dumps(made, ensure_ascii=False, allow_nan=False).encode()
        except ValueError as error:  # nan, inf, or half of a surrogate pair
            raise ValueError(
                f"{_culprit(made)}: got a value that JSON cannot hold ({error})"
            ) from error


def _value(value: Any, where: str) -> Any:
    try:
        return json_value(value)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _meta_of(buffer: Buffer, key: str) -> Any:
    meta = buffer.all_meta()
    if key not in meta:
        raise ValueError(
            f"{PORTS[0]}: got no meta {key!r} (there are: {', '.join(meta) or 'none'})"
            f"{did_you_mean(key, meta)}"
        )
    return meta[key]


def _culprit(made: dict[str, Any]) -> str:
    """Returns the key of the value that JSON cannot represent."""
    for key, value in made.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            return f"field {key!r}"
    return "the keys"
