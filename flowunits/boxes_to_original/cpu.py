"""``boxes_to_original`` on the CPU."""

from typing import Any

from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_boxes

_KEY = "letterbox"


class BoxesToOriginal(FlowUnit):
    """Inverts the scale and the offset of ``letterbox``, axis by axis."""

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(_map_back)


def _map_back(buffer: Buffer) -> Buffer:
    x, y, w, h, width, height = _read_place(buffer.get(_KEY))
    found = []
    for box in read_boxes(buffer.data):
        left, right = _span(box.x - x, box.w, width / w, width)
        top, bottom = _span(box.y - y, box.h, height / h, height)
        if left < right and top < bottom:
            found.append(Box(left, top, right - left, bottom - top, *box[4:]))
    # The boxes are no longer those of the letterboxed image: None removes its place from the meta.
    return Buffer(found, {_KEY: None})


def _span(start: float, length: float, scale: float, most: float) -> tuple[float, float]:
    """Returns the scaled start and end of a side of a box, clipped to 0..``most``."""
    return max(start * scale, 0.0), min((start + length) * scale, most)


def _read_place(meta: Any) -> tuple[float, float, float, float, float, float]:
    """Returns the numbers of the meta.

    Raises:
        ValueError: the meta is missing, or has another form.
    """
    if meta is None:
        raise ValueError(
            f"in_region: got boxes without the meta {_KEY!r}; expected boxes that a detector found "
            "in an image of letterbox, with no boxes_to_original between"
        )
    try:
        numbers = [float(number) for number in meta]
    except (TypeError, ValueError):
        numbers = []
    is_place = len(numbers) == 6 and all(abs(number) < 1 << 31 for number in numbers)  # no NaN
    if not is_place or not all(number > 0 for number in numbers[2:]):
        raise ValueError(
            f"in_region: got the meta {_KEY!r} {meta!r:.80}; expected the numbers x, y, w, h, "
            "width, height, with sizes above 0"
        )
    x, y, w, h, width, height = numbers
    return x, y, w, h, width, height
