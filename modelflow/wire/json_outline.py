"""Reduces a JSON text to its brackets, commas and colons, to check depth, size and nesting.

The outline of ``{"instances": [[1.5, 2], [3, 4]]}`` is ``{:[[,],[,]]}``.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from modelflow.wire.problem import Code, refuse


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """The limits of a JSON text.

    Attributes:
        depth: The most nested lists and objects of a JSON document. A deeper one is answered 400.
        elements: The most values of a JSON document. A larger one is answered 429.
    """

    depth: int = 64
    elements: int = (1 << 24) - 1


def check_limits(text: bytes, limits: JsonLimits) -> bytes | None:
    """Checks the limits of a text before the text is parsed.

    Returns:
        The outline, if the check needed it. None otherwise.

    Raises:
        Problem: The text is nested too deep, or has too many values.
    """
    if len(text) <= 2 * limits.elements:  # a value takes at least two bytes
        is_short = len(text) < _SHORT
        opened = text.count(b"[") + text.count(b"{") if is_short else _count_opened(text)
        if opened <= limits.depth:
            return None
    outline = outline_of_text(text)
    elements = int(np.count_nonzero(np.frombuffer(outline, np.uint8) == ord(","))) + 1
    if elements > limits.elements:
        refuse(
            f"JSON document: {elements} values; at most {limits.elements} are taken; "
            "send large tensors in binary",
            Code.RESOURCE_EXHAUSTED,
        )
    steps = np.frombuffer(outline.translate(_STEPS, b",:"), np.int8)
    depth = int(steps.cumsum(dtype=np.int32).max(initial=0))
    if depth > limits.depth:
        refuse(f"JSON document: nested {depth} deep; at most {limits.depth} is taken")
    return outline


def _count_opened(text: bytes) -> int:
    codes = np.frombuffer(text, np.uint8)
    return int(np.count_nonzero(codes == ord("[")) + np.count_nonzero(codes == ord("{")))


def outline_of_text(text: bytes) -> bytes:
    """Returns the outline of a JSON text; the outline of another text is meaningless."""
    # The characters of numbers go first, in one quick pass, because the search for strings is then
    # much shorter. None of these bytes ends a string, and a backslash precedes none of them.
    thin = text.translate(None, b"0123456789+-.eE \t\r\n")
    return _STRING.sub(b"", thin).translate(None, _WORDS)


def outline_of_value(value: Any) -> bytes:
    """Returns the outline of the text of a parsed value; an array counts as nested lists."""
    if isinstance(value, np.ndarray):
        return _outline_of_shape(value.shape)
    if isinstance(value, list):
        return b"[" + b",".join(map(outline_of_value, value)) + b"]"
    if isinstance(value, dict):
        parts = (b":" + outline_of_value(held) for held in value.values())
        return b"{" + b",".join(parts) + b"}"
    return b""


def _outline_of_shape(shape: tuple[int, ...]) -> bytes:
    outline = b""
    for extent in reversed(shape):
        # Repeated at once. Joining would visit each part.
        outline = b"[" + (outline + b",") * (extent - 1) + outline * min(extent, 1) + b"]"
    return outline


_SHORT = 4 << 10  # bytes: in a shorter text NumPy's calls cost more than they save


# Possessive quantifiers (`*+`) never backtrack, and an unterminated string extends to the end.
# Otherwise a client could choose a text that takes unlimited time.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


_WORDS = bytes(set(range(256)) - set(b"{}[],:"))


_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
