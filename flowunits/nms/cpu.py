"""``nms`` on the CPU."""

from typing import Any

import numpy as np

from flowunits.nms import NmsOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_boxes, read_labels, suppress


class Nms(FlowUnit):
    """Suppresses boxes greedily: see `modelflow.image.suppress`."""

    def open(self, config: NmsOptions) -> None:
        """Reads the labels."""
        self._options = config
        self._labels = read_labels(config.labels) if config.labels else ()

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(self._keep, *ctx.inputs)

    def _keep(self, region: Buffer, scores: Buffer | None = None) -> list[Box]:
        boxes = read_boxes(region.data)
        if scores is not None:
            boxes = _scored(boxes, scores.data)
        boxes = [box for box in boxes if box.score >= self._options.conf_threshold]
        if not boxes:
            return []
        kept = suppress(
            np.array([box[:4] for box in boxes]),
            np.array([box.score for box in boxes]),
            np.array([box.class_id for box in boxes]),
            np.full(len(boxes), self._options.nms_threshold),
            self._options.max_boxes,
        )
        return [self._named(boxes[index]) for index in kept]

    def _named(self, box: Box) -> Box:
        if box.label or not 0 <= box.class_id < len(self._labels):
            return box
        return box._replace(label=self._labels[box.class_id])


def _scored(boxes: list[Box], data: Any) -> list[Box]:
    scores = np.asarray(data)
    if scores.dtype.kind not in "uif" or scores.ndim not in (1, 2) or len(scores) != len(boxes):
        raise ValueError(
            f"in_scores: got a {scores.dtype} array of shape {scores.shape} for {len(boxes)} boxes;"
            f" expected numbers ({len(boxes)},) or ({len(boxes)}, classes)"
        )
    if not np.isfinite(scores).all():
        raise ValueError("in_scores: got a score that is not finite; expected finite numbers")
    if scores.ndim == 1:
        return [b._replace(score=float(s)) for b, s in zip(boxes, scores, strict=True)]
    classes = scores.argmax(axis=1) if scores.size else []
    return [
        box._replace(score=float(row[best]), class_id=int(best), label="")
        for box, row, best in zip(boxes, scores, classes, strict=True)
    ]
