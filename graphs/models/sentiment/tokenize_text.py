"""The unit that makes numbers of words."""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modelflow import Buffer, Config, Context, FlowUnit

__all__ = ["LENGTH", "VOCABULARY", "TokenizeText", "encode", "read_vocabulary", "words_of"]

VOCABULARY = Path(__file__).with_name("vocabulary.txt")
# Tokens of a text; what follows is cut off. The network's input has this length.
LENGTH = 48
# Ids that are no words: what fills up, and what is not in the vocabulary.
_PAD, _UNKNOWN = 0, 1
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def words_of(text: str) -> list[str]:
    """Returns the words of a text, in lower case."""
    return _WORD.findall(text.lower())


def read_vocabulary() -> dict[str, int]:
    """Returns the number of each word: the lines of the file, from 2 on."""
    words = VOCABULARY.read_text(encoding="utf-8").split()
    return {word: number for number, word in enumerate(words, start=_UNKNOWN + 1)}


def encode(text: str, ids: dict[str, int]) -> npt.NDArray[np.int32]:
    """Returns a text as numbers: int32 (48,), filled up with zeros."""
    row = np.full(LENGTH, _PAD, np.int32)
    found = [ids.get(word, _UNKNOWN) for word in words_of(text)[:LENGTH]]
    row[: len(found)] = found
    return row


class TokenizeText(FlowUnit):
    """Makes each text a row of word numbers."""

    def open(self, config: Config) -> None:  # noqa: ARG002 - no options
        """Reads the vocabulary."""
        self._ids = read_vocabulary()

    def process(self, ctx: Context) -> None:
        """Reads each text by itself; one that is no UTF-8 fails alone."""
        ctx.emit_each(self._row)

    def _row(self, buffer: Buffer) -> npt.NDArray[np.int32]:
        data = buffer.data
        text = data if isinstance(data, str) else bytes(buffer).decode("utf-8")
        return encode(text, self._ids)
