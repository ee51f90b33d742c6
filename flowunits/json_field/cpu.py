"""``json_field`` on the CPU."""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from flowunits.json_field import JsonFieldOptions
from flowunits.json_field.array import array_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.errors import did_you_mean

_MAX_BYTES = 64 << 20
# Keys that an error shows, and keys among which it looks for the nearest.
_MOST_KEYS, _MOST_LOOKED_AT = 20, 1000
_ABSENT = object()


class JsonField(FlowUnit):
    """Follows the path; a missing or unsuitable part is an error that names its position."""

    def open(self, config: JsonFieldOptions) -> None:
        """Stores the options."""
        self._field, self._parts = config.field, config.field.split(".")
        self._default = _ABSENT if config.default is None else _read_default(config.default)
        self._dtype = None if config.dtype is None else np.dtype(config.dtype)

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(self._value)

    def _value(self, buffer: Buffer) -> Any:
        found = _document(buffer.data)
        for place, part in enumerate(self._parts):
            inner = _inner(found, part)
            if inner is _ABSENT:
                if self._default is _ABSENT:
                    raise ValueError(self._no_field(found, place))
                found = self._default
                break
            found = inner
        return found if self._dtype is None else array_of(found, self._dtype, self._field)

    def _no_field(self, found: Any, place: int) -> str:
        part = self._parts[place]
        where = f"at {'.'.join(self._parts[:place])!r}" if place else "as the document"
        near = ""
        if isinstance(found, Mapping):
            # The search for a similar name takes time, and the document comes from clients.
            keys = [f"{key!s:.80}" for key in islice(found, _MOST_LOOKED_AT)]
            more = f" and {len(found) - _MOST_KEYS} more" if len(found) > _MOST_KEYS else ""
            shown = (
                f"with the keys {', '.join(keys[:_MOST_KEYS])}{more}" if keys else "without keys"
            )
            what, near = f"an object {shown}", did_you_mean(part, keys)
        elif _is_list(found):
            what = f"a list of {len(found)} items"
        else:
            what = f"{found!r:.80}"
        return f"in_data: field {self._field!r}: got {what} {where}; expected {part!r} in it{near}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _inner(outer: Any, part: str) -> Any:
    if isinstance(outer, Mapping):
        return outer.get(part, _ABSENT)
    if _is_list(outer) and part.isascii() and part.isdecimal():
        place = int(part)
        return outer[place] if place < len(outer) else _ABSENT
    return _ABSENT


def _document(data: Any) -> Any:
    if isinstance(data, Mapping | list | tuple):
        return data
    if isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 1:
        data = data.tobytes()
    if isinstance(data, memoryview):
        data = bytes(data)
    if not isinstance(data, str | bytes | bytearray):
        raise ValueError(
            f"in_data: got {type(data).__name__}; expected a JSON document: text, bytes or a "
            "mapping"
        )
    if len(data) > _MAX_BYTES:
        raise ValueError(
            f"in_data: got {len(data)} bytes; expected a JSON document of at most {_MAX_BYTES}"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"in_data: got {len(data)} bytes that are no JSON ({error})") from error


def _read_default(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # text without quotes
        return text
