"""``data_source_parser`` on the CPU."""

import json
from typing import Any

from modelflow import Buffer, Context, FlowUnit
from modelflow.video import RetryOptions, is_network_address

_MOST = 1 << 20


class DataSourceParser(FlowUnit):
    """Reads JSON objects."""

    def open(self, config: RetryOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Reads each buffer separately."""
        ctx.emit_each(self._parse)

    def _parse(self, buffer: Buffer) -> Buffer:
        described = _read(buffer.data)
        kind = described.get("source_type", buffer.get("source_type", "url"))
        if kind != "url":
            raise ValueError(f"in_data: got the source_type {kind!r}; expected 'url'")
        url, url_type = described.get("url"), described.get("url_type", "file")
        if not isinstance(url, str) or not url:
            raise ValueError(f"in_data: got url={url!r}; expected the address of a video")
        if url_type not in ("file", "stream"):
            raise ValueError(f"in_data: got url_type={url_type!r}; expected 'file' or 'stream'")
        is_network_address(url)  # raises for an address that could not be opened
        options = self._options
        return Buffer(
            url,
            {
                "source_url": url,
                "url_type": url_type,
                "retry_enable": options.retry_enable,
                "retry_interval_ms": options.retry_interval_ms,
                "retry_count_limit": options.retry_count_limit,
            },
        )


def _read(data: Any) -> dict[str, Any]:
    if isinstance(data, dict):
        return data
    if not isinstance(data, str | bytes | bytearray) or len(data) > _MOST:
        found = f"{len(data)} bytes" if hasattr(data, "__len__") else type(data).__name__
        raise ValueError(f"in_data: got {found}; expected a JSON object of at most {_MOST} bytes")
    try:
        value = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"in_data: got text that is no JSON ({error}); expected an object with url"
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f"in_data: got JSON of type {type(value).__name__}; expected an object with url"
        )
    return value
