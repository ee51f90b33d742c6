"""Encodes texts by a file of tokens, as Keras's TextVectorization does."""

import re
import string
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.text_vectorize import TextVectorizeOptions

__all__ = ["Vocabulary"]

# Id 0 is padding.
_UNKNOWN = 1
_MAX_BYTES = 64 << 20
_PUNCTUATION = string.punctuation.encode()
# The first lines of `get_vocabulary()`: the tokens of the ids 0 and 1.
_SPECIAL = ["", "[UNK]"]


class Vocabulary:
    """The tokens with their ids, and the rule that cuts a text into tokens."""

    def __init__(self, config: TextVectorizeOptions) -> None:
        """Reads the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large, is no text, or has no, empty or repeated tokens.
        """
        tokens = _read_tokens(config.path)
        self._length = config.max_length
        self._is_lower = config.lower is not False
        self._dtype = np.dtype(config.dtype)
        self._pattern = None if config.token_pattern is None else re.compile(config.token_pattern)
        keys = tokens if self._pattern else map(str.encode, tokens)
        self._ids: dict[Any, int] = {key: place for place, key in enumerate(keys, _UNKNOWN + 1)}

    def encode(self, text: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Returns the ids of a text and their mask.

        Raises:
            ValueError: the text has half of a surrogate pair.
        """
        tokens = self._split(text) if self._pattern is None else self._found(text, self._pattern)
        get = self._ids.get
        ids = [get(token, _UNKNOWN) for token in tokens[: self._length]]
        length = len(ids) if self._length is None else self._length
        row, mask = np.zeros(length, self._dtype), np.zeros(length, self._dtype)
        row[: len(ids)] = ids
        mask[: len(ids)] = 1
        return row, mask

    def _split(self, text: str) -> list[bytes]:
        # On UTF-8 bytes, to change only ASCII letters, punctuation and white space, as TensorFlow
        # does.
        held = text.encode()
        if self._is_lower:
            held = held.lower()
        # `split` leaves the text after the last wanted token as one more token, which `encode`
        # drops.
        most = -1 if self._length is None else self._length
        return held.translate(None, _PUNCTUATION).split(None, most)

    def _found(self, text: str, pattern: re.Pattern[str]) -> list[str]:
        return pattern.findall(text.lower() if self._is_lower else text)


def _read_tokens(path: str) -> list[str]:
    file = Path(path)
    size = file.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"vocabulary file {path}: got {size} bytes; expected at most {_MAX_BYTES}")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"vocabulary file {path}: got no UTF-8 text ({error}); expected a token a line"
        ) from error
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    first = len(_SPECIAL) if lines[: len(_SPECIAL)] == _SPECIAL else 0
    tokens = lines[first:]
    seen: dict[str, int] = {}
    for number, token in enumerate(tokens, first + 1):
        if not token or token in seen:
            found = f"{token!r} as in line {seen[token]}" if token else "an empty line"
            raise ValueError(
                f"vocabulary file {path}:{number}: got {found}; expected another token a line"
            )
        seen[token] = number
    return tokens
