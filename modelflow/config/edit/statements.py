"""Statements in a text: replaced, removed, put behind others; every other byte stays."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Splice(NamedTuple):
    """What is to stand in the place of ``[start, end)``."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Returns ``text`` with ``splices`` put in; of two at one place the first one comes first."""
    parts, position = [], 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        parts += [text[position : splice.start], splice.text]
        position = max(position, splice.end)
    return "".join([*parts, text[position:]])


def find_lost(old: Sequence[str], new: Iterable[str]) -> list[str]:
    """Returns the comments of an old statement that do not stand in the new one."""
    lost = list(old)
    for comment in new:
        if comment in lost:
            lost.remove(comment)
    return lost


def is_first(text: str, place: int) -> bool:
    """Tells whether nothing stands before a place in its line."""
    return not text[text.rfind("\n", 0, place) + 1 : place].strip(" \t")


def is_last(text: str, place: int) -> bool:
    """Tells whether nothing stands behind a place in its line."""
    end = text.find("\n", place)
    return not text[place : len(text) if end < 0 else end].strip(" \t")


def indentation(text: str, place: int) -> str:
    """Returns the blanks that the line of a place begins with."""
    found = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, place) + 1)
    return found[0] if found else ""
