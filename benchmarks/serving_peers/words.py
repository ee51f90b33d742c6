"""A model in plain Python, which holds the interpreter's lock: a number from a text's words."""

import hashlib

__all__ = ["score"]


def score(text: str) -> float:
    """Returns a number that every letter counts for; some milliseconds."""
    total = 0
    for place, word in enumerate(text.split()):
        value = 0
        for letter in word:
            value = (value * 31 + ord(letter)) % 1_000_003
        total += value * (place % 7 + 1)
    return total % 10_007 + len(hashlib.sha256(text.encode()).digest()) / 100
