"""The units of ``video_boxes.toml``, which find shapes, make a stream of them, and name them."""

from typing import Any

import cv2
import numpy as np

from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_box, read_boxes, read_image

_LEAST_SIDE = 8  # pixels; smaller regions are noise
_MARGIN = 2


class FindShapes(FlowUnit):
    """Finds regions that differ from the background in brightness."""

    def process(self, ctx: Context) -> None:
        """Emits a list of boxes for each image."""
        ctx.emit_each(self._find)

    def _find(self, buffer: Buffer) -> list[Box]:
        image = read_image(buffer)
        gray = cv2.cvtColor(image.data, cv2.COLOR_BGR2GRAY)
        ground = float(np.median(gray))
        _, mask = cv2.threshold(cv2.absdiff(gray, ground), 40, 255, cv2.THRESH_BINARY)
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        rects = map(cv2.boundingRect, contours)
        large = [rect for rect in rects if min(rect[2:]) >= _LEAST_SIDE]
        return sorted(_box(rect, image.width, image.height) for rect in large)


def _box(rect: Any, width: int, height: int) -> Box:
    x, y, w, h = rect
    left, top = max(0, x - _MARGIN), max(0, y - _MARGIN)
    right, bottom = min(width, x + w + _MARGIN), min(height, y + h + _MARGIN)
    return Box(left, top, right - left, bottom - top)


class SplitShapes(FlowUnit):
    """Emits one buffer for each box of an image."""

    def process(self, ctx: Context) -> None:
        """Emits the image together with each of its boxes."""
        (image,), (boxes,) = ctx.input("in_image"), ctx.input("in_region")
        found = read_boxes(boxes.data)
        ctx.emit([image] * len(found), "out_image")
        ctx.emit(found, "out_region")


class NameShapes(FlowUnit):
    """Collects the boxes of an image in one list, with the name and score of each box."""

    def process(self, ctx: Context) -> None:
        """Combines the boxes with their classes."""
        boxes, classes = ctx.input("in_region"), ctx.input("in_class")
        named = []
        for box, best in zip(boxes, classes, strict=True):
            (first, *_) = best.data
            found = read_box(box.data)
            named.append(
                found._replace(score=first["score"], class_id=first["index"], label=first["class"])
            )
        ctx.emit([named])
