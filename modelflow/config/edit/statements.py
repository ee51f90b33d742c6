"""Splices of a text: statements are replaced, removed or added, and all other bytes stay."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Splice(NamedTuple):
    """A replacement ``text`` for the span ``[start, end)``; an empty span means an insertion."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Returns ``text`` with ``splices`` applied; splices at the same place keep their order."""
    parts, position = [], 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        parts += [text[position : splice.start], splice.text]
        position = max(position, splice.end)
    return "".join([*parts, text[position:]])


def find_lost(old: Sequence[str], new: Iterable[str]) -> list[str]:
    """Returns the comments of an old statement that are missing in the new statement."""
    lost = list(old)
    for comment in new:
        if comment in lost:
            lost.remove(comment)
    return lost


def is_first(text: str, place: int) -> bool:
    """Tells whether the line before a place is blank."""
    return not text[text.rfind("\n", 0, place) + 1 : place].strip(" \t")


def is_last(text: str, place: int) -> bool:
    """Tells whether the line behind a place is blank."""
    end = text.find("\n", place)
    return not text[place : len(text) if end < 0 else end].strip(" \t")


def indentation(text: str, place: int) -> str:
    """Returns the indentation of the line of a place."""
    found = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, place) + 1)
    return found[0] if found else ""
