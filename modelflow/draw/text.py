"""The width of texts in a drawing, and shortened texts. Pure functions."""

import unicodedata

TEXT_SIZE, LABEL_SIZE = 12.5, 10.5
"""The sizes of the font in pixels: of boxes, and of the labels of wires."""

# Widths of letters as shares of the font's size. They are those of the wider common sans-serif
# fonts (DejaVu Sans, Verdana), because a browser chooses the font.
_NARROW, _SMALL, _CAPITAL, _WIDE = 0.42, 0.64, 0.78, 1.0
_BOLD = 1.1


def text_width(text: str, size: float = TEXT_SIZE, *, is_bold: bool = False) -> float:
    """Returns a width in pixels that a text does not exceed in common fonts.

    Args:
        text: The text.
        size: The size of the font in pixels.
        is_bold: Whether the text is bold.
    """
    return sum(map(_letter, text)) * size * (_BOLD if is_bold else 1.0)


def _letter(letter: str) -> float:
    if letter in "ijlrtfI.,:;'|!()[] ":
        return _NARROW
    if letter in "mwMW@%→…—" or unicodedata.east_asian_width(letter) in "WF":
        return _WIDE
    return _CAPITAL if letter.isupper() else _SMALL


def shorten(text: str, most: int) -> str:
    """Returns a text of at most so many letters, with ``…`` in place of its middle."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"
