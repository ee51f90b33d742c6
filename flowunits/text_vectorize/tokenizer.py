"""Encodes texts by a tokenizer.json of Hugging Face, with the package ``tokenizers``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.text_vectorize import TextVectorizeOptions
from modelflow import MissingDependencyError

try:
    from tokenizers import Tokenizer
except ModuleNotFoundError as error:
    raise MissingDependencyError("tokenizers", "text", "a tokenizer.json") from error

__all__ = ["TokenizerFile"]

_MAX_BYTES = 256 << 20
# Usual names of the padding token, for files that do not declare their padding.
_PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")


class TokenizerFile:
    """A tokenizer, which cuts and pads texts itself."""

    def __init__(self, config: TextVectorizeOptions) -> None:
        """Reads the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large or no tokenizer, or ``max_length`` is too small for
                text.
        """
        self._tokenizer = _read(config.path)
        self._is_lower = config.lower is True
        self._dtype = np.dtype(config.dtype)
        if config.max_length is not None:
            _set_length(self._tokenizer, config.max_length)

    def encode(self, text: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Returns the ids of a text and their mask.

        Raises:
            ValueError: the text has half of a surrogate pair.
        """
        text.encode()
        found = self._tokenizer.encode(text.lower() if self._is_lower else text)
        dtype = self._dtype
        return np.array(found.ids, dtype), np.array(found.attention_mask, dtype)


def _read(path: str) -> Any:
    file = Path(path)
    size = file.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"tokenizer file {path}: got {size} bytes; expected at most {_MAX_BYTES}")
    contents = file.read_bytes()
    try:
        return Tokenizer.from_buffer(contents)
    except Exception as error:  # tokenizers raises no narrower class
        raise ValueError(
            f"tokenizer file {path}: got {size} bytes; expected a tokenizer.json ({error})"
        ) from error


def _set_length(tokenizer: Any, length: int) -> None:
    special = tokenizer.num_special_tokens_to_add(False)
    if length <= special:
        raise ValueError(
            f"option 'max_length': got {length}; expected more than the {special} special tokens "
            "that the tokenizer adds"
        )
    cut = tokenizer.truncation or {}
    sides = {key: cut[key] for key in ("direction", "strategy") if key in cut}
    tokenizer.enable_truncation(length, **sides)
    filled = tokenizer.padding or _padding_of(tokenizer)
    kept = ("direction", "pad_id", "pad_type_id", "pad_token")
    tokenizer.enable_padding(length=length, **{key: filled[key] for key in kept if key in filled})


def _padding_of(tokenizer: Any) -> dict[str, Any]:
    for token in _PAD_TOKENS:
        number = tokenizer.token_to_id(token)
        if number is not None:
            return {"pad_id": number, "pad_token": token}
    return {"pad_id": 0}
