"""Pieces of a text replaced by others; every other character stays."""

import re
from collections.abc import Iterable
from typing import NamedTuple

# Two characters that would become one word.
_WORD_AND_WORD = re.compile(r"""[^\s{}\[\];,"/#<>]{2}""")


class Splice(NamedTuple):
    """What is to stand in the place of ``[start, end)``."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Returns ``text`` with ``splices`` put in, which may overlap in blanks alone.

    Of two at one place the one given first comes first.
    """
    parts, position = [], 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        assert not text[splice.start : position].strip(), "splices overlap"
        parts += [text[position : splice.start], splice.text]
        position = max(position, splice.end)
    return "".join([*parts, text[position:]])


def line_start(text: str, place: int) -> int:
    """Returns where the line of a place begins."""
    return text.rfind("\n", 0, place) + 1


def line_end(text: str, place: int) -> str:
    r"""Returns how the line of a place ends, ``\n`` or ``\r\n``; as the text's first where not."""
    end = text.find("\n", place)
    end = end if end >= 0 else text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def indentation(text: str, place: int) -> str:
    """Returns the blanks that the line of a place begins with."""
    start = line_start(text, place)
    return text[start : start + len(text[start:]) - len(text[start:].lstrip(" \t"))]


def removal(text: str, start: int, end: int) -> Splice:
    """Returns the splice that takes a piece away: with its lines, where nothing else is in them."""
    line = line_start(text, start)
    behind = re.compile(r"[ \t]*").match(text, end)
    assert behind is not None  # it may be empty
    is_last = re.compile(r"\r?\n|\Z").match(text, behind.end())
    if not text[line:start].strip(" \t"):
        if is_last:
            return Splice(line, is_last.end(), "")
        return Splice(start, behind.end(), "")
    start = line + len(text[line:start].rstrip(" \t"))
    neighbours = text[start - 1 : start] + text[end : end + 1]
    return Splice(start, end, " " if _WORD_AND_WORD.fullmatch(neighbours) else "")
