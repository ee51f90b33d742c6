"""The flow unit words."""

import re
from pathlib import Path
from typing import Any

import modelflow
import numpy as np

WORDS = Path(__file__).with_name("words.txt")


def read_words() -> dict[str, int]:
    """Returns the place of each known word."""
    return {word: place for place, word in enumerate(WORDS.read_text().split())}


def counts(text: str, places: dict[str, int]) -> np.ndarray:
    """Returns the number of occurrences of each known word in a text: float32 (words,)."""
    row = np.zeros(len(places), np.float32)
    for word in re.findall(r"\w+", text.lower()):
        if word in places:
            row[places[word]] += 1
    return row


class Words(modelflow.FlowUnit):
    """Counts the known words of a text."""

    def open(self, config: Any) -> None:
        """Reads the words."""
        self.places = read_words()

    def process(self, ctx: modelflow.Context) -> None:
        """Processes each text separately. Invalid UTF-8 fails only its own text."""
        ctx.emit_each(self.row)

    def row(self, buffer: modelflow.Buffer) -> np.ndarray:
        """Returns the counts of one text."""
        data = buffer.data
        return counts(data if isinstance(data, str) else bytes(buffer).decode(), self.places)
