"""``base64_decoder`` on the CPU."""

import base64
import binascii
import json
from typing import Any

import numpy as np

from flowunits.base64_decoder import Base64DecoderOptions
from modelflow import Buffer, Context, FlowUnit


class Base64Decoder(FlowUnit):
    """Decodes strictly and ignores white space; any other character is an error."""

    def open(self, config: Base64DecoderOptions) -> None:
        """Stores the options."""
        self._key = config.key if config.data_format == "json" else None

    def process(self, ctx: Context) -> None:
        """Decodes each buffer separately."""
        ctx.emit_each(self._decode)

    def _decode(self, buffer: Buffer) -> bytes:
        text = _bytes(buffer.data)
        if self._key is not None:
            text = _field(text, self._key)
        try:
            return base64.b64decode(b"".join(text.split()), validate=True)
        except binascii.Error as error:
            raise ValueError(
                f"in_data: got {len(text)} bytes that are no base64 ({error})"
            ) from error


def _bytes(data: Any) -> bytes:
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, np.ndarray) and data.dtype == np.uint8:
        data = data.tobytes()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ValueError(f"in_data: got {type(data).__name__}; expected base64 as text or bytes")
    if not len(data):
        raise ValueError("in_data: got 0 bytes; expected base64 as text or bytes")
    return bytes(data)


def _field(text: bytes, key: str) -> bytes:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"in_data: got {len(text)} bytes that are no JSON ({error})") from error
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, str):
        kind = f"an object with {sorted(found)[:8]}" if isinstance(found, dict) else "no object"
        raise ValueError(f"in_data: got {kind}; expected a JSON object with base64 text in {key!r}")
    return value.encode()
