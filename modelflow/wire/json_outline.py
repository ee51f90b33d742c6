"""The brackets of a JSON text without its words: how deep it is, how much it holds, how it nests.

The outline of ``{"instances": [[1.5, 2], [3, 4]]}`` is ``{:[[,],[,]]}``.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from modelflow.wire.problem import Code, refuse


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """What a JSON text may hold at most.

    Attributes:
        depth: Most lists and objects of a JSON document inside one another; more are answered 400.
        elements: Most values of a JSON document; more are answered 429.
    """

    depth: int = 64
    elements: int = (1 << 24) - 1


def check_limits(text: bytes, limits: JsonLimits) -> bytes | None:
    """Looks, before anything is parsed, whether a text keeps the limits.

    Returns:
        The outline, where it was needed to know.

    Raises:
        Problem: it is nested deeper, or holds more values.
    """
    if len(text) <= 2 * limits.elements:  # a value takes two bytes at least
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
    """Returns the outline of a text, which is one of JSON (of another, anything)."""
    # What makes up numbers goes first, in one quick pass: strings are then looked for in a text
    # that is much shorter. None of these bytes ends a string or is what a backslash stands before.
    thin = text.translate(None, b"0123456789+-.eE \t\r\n")
    return _STRING.sub(b"", thin).translate(None, _WORDS)


def outline_of_value(value: Any) -> bytes:
    """Returns the outline of the text that a value was read from; arrays count as nested lists."""
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
        # Repeated, as bytes are in one go; joining would visit each.
        outline = b"[" + (outline + b",") * (extent - 1) + outline * min(extent, 1) + b"]"
    return outline


_SHORT = 4 << 10  # bytes: below, NumPy's calls cost more than they save


# Nothing is tried twice (`*+`), and a text without an end is one to the end: else a client could
# choose a text for which this takes a time without bound.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


_WORDS = bytes(set(range(256)) - set(b"{}[],:"))


_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
