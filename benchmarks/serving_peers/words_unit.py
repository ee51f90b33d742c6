"""The words' model as a unit."""

import numpy as np
from words import score

import modelflow


@modelflow.flowunit
def words(text: bytes) -> np.float32:
    """Gives the score of a text."""
    return np.float32(score(text.decode()))
