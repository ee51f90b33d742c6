"""``text_vectorize`` on the CPU."""

from typing import Any

import numpy as np

from flowunits.text_vectorize import TextVectorizeOptions
from flowunits.text_vectorize.vocabulary import Vocabulary
from modelflow import Context, FlowUnit

_MAX_BYTES = 16 << 20


class TextVectorize(FlowUnit):
    """Encodes each text separately. Invalid UTF-8 fails only its own text."""

    def open(self, config: TextVectorizeOptions) -> None:
        """Reads the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the contents do not fit the kind of file.
            MissingDependencyError: a tokenizer.json is given, and ``tokenizers`` is not installed.
        """
        if config.is_tokenizer:
            from flowunits.text_vectorize.tokenizer import TokenizerFile

            self._encode = TokenizerFile(config).encode
        else:
            self._encode = Vocabulary(config).encode

    def process(self, ctx: Context) -> None:
        """Emits the ids and the mask of each text."""
        ids, masks = ctx.outputs["out_data"], ctx.outputs["mask"]
        for buffer in ctx.input():
            try:
                row, mask = self._encode(_text(buffer.data))
            except ValueError as error:
                ids.append(error)
                masks.append(error)
            else:
                ids.append(row)
                masks.append(mask)


def _text(data: Any) -> str:
    if isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 1:
        data = data.data
    if not isinstance(data, str | bytes | bytearray | memoryview):
        raise ValueError(f"in_data: got {type(data).__name__}; expected text, or UTF-8 as bytes")
    if len(data) > _MAX_BYTES:
        raise ValueError(f"in_data: got {len(data)} bytes of text; expected at most {_MAX_BYTES}")
    if isinstance(data, str):
        return data
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"in_data: got {len(data)} bytes that are no text ({error})") from error
