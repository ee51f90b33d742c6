"""Short reviews, composed of parts, for training and for testing the network."""

from collections.abc import Sequence

import numpy as np

__all__ = ["reviews"]

_SUBJECTS = """
film movie story plot acting cast music ending room hotel service staff breakfast meal soup pizza
waiter phone screen battery camera keyboard book author delivery price app update support bed view
chair
"""
_ADJECTIVES = {
    True: """
great excellent wonderful brilliant lovely perfect delightful superb fantastic charming fresh
friendly fast reliable beautiful comfortable amazing good helpful quiet
""",
    False: """
terrible awful boring dreadful poor disappointing rude slow broken dirty bland noisy ugly useless
horrible bad cold late weak expensive
""",
}
_VERBS = {
    True: "loved enjoyed recommend adored liked",
    False: "hated regret disliked returned avoid",
}
_DEGREES = ("", "", "very ", "really ", "so ", "truly ", "quite ")
_NEUTRAL = (
    "we came on a monday",
    "i bought it last week",
    "it was our second visit",
    "my sister chose it",
    "there were three of us",
    "it arrived in a box",
)


def reviews(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Returns made-up reviews, and for each 1 (pleased) or 0 (not)."""
    rng = np.random.default_rng(seed)
    moods = rng.integers(0, 2, count)
    return [_review(rng, bool(mood)) for mood in moods], [int(mood) for mood in moods]


def _review(rng: np.random.Generator, is_pleased: bool) -> str:
    parts = [_opinion(rng, is_pleased) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.4:
        parts.append(_one(rng, _NEUTRAL))
    if len(parts) > 1 and rng.random() < 0.25:  # one opinion against the others
        parts = [_opinion(rng, not is_pleased), "but", *(_opinion(rng, is_pleased) for _ in "123")]
    else:
        rng.shuffle(parts)
    return " ".join(parts)


def _opinion(rng: np.random.Generator, is_pleased: bool) -> str:
    subject = _word(rng, _SUBJECTS)
    kind = rng.random()
    if kind < 0.25:
        return f"i {_word(rng, _VERBS[is_pleased])} the {subject}"
    if kind < 0.45:  # the opposite word, negated
        return f"the {subject} was not {_word(rng, _ADJECTIVES[not is_pleased])}"
    word = _word(rng, _ADJECTIVES[is_pleased])
    return f"the {subject} was {_one(rng, _DEGREES)}{word}"


def _word(rng: np.random.Generator, words: str) -> str:
    return _one(rng, words.split())


def _one(rng: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]
