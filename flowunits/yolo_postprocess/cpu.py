"""``yolo_postprocess`` on the CPU."""

from itertools import accumulate
from typing import Any

import numpy as np

from flowunits.yolo_postprocess import Head, YoloPostprocessOptions
from flowunits.yolo_postprocess.heads import (
    Candidates,
    Floats,
    Layer,
    decode,
    decode_ready,
    split,
)
from flowunits.yolo_postprocess.rows import read_boxes
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_labels, suppress


class YoloPostprocess(FlowUnit):
    """Decodes any number of inputs in their order: units of a folder name their own ports."""

    def open(self, config: YoloPostprocessOptions) -> None:
        """Computes the layout of the tensors and reads the labels.

        Raises:
            ValueError: the number of labels differs from the number of classes.
        """
        self._options = config
        self._head = config.form
        self._layers = _layers(config) if self._head.has_cells else []
        self._conf = np.broadcast_to(
            np.array(config.conf_threshold, np.float32), config.classes
        ).copy()
        self._nms = np.broadcast_to(np.array(config.nms_threshold), config.classes)
        self._labels = read_labels(config.labels) if config.labels else ()
        if self._labels and len(self._labels) != config.classes:
            raise ValueError(
                f"labels file {config.labels}: got {len(self._labels)} names; expected "
                f"{config.classes}, one a class"
            )

    def process(self, ctx: Context) -> None:
        """Processes each image separately."""
        ctx.emit_each(self._detect, *ctx.inputs)

    def _detect(self, *buffers: Buffer) -> list[Box]:
        tensors = [
            _floats(buffer.data, number, self._head) for number, buffer in enumerate(buffers, 1)
        ]
        found = self._decode(tensors)
        boxes = np.concatenate([candidates.boxes for candidates in found])
        scores = np.concatenate([candidates.scores for candidates in found])
        classes = np.concatenate([candidates.classes for candidates in found])
        has_area = (boxes[:, 2:] > 0).all(axis=1)  # a network may return any numbers
        boxes, scores, classes = boxes[has_area], scores[has_area], classes[has_area]
        boxes[:, :2] -= boxes[:, 2:] / 2
        most = self._options.max_boxes
        if found[0].is_suppressed:
            kept = np.argsort(-scores, kind="stable")[:most].tolist()
        else:
            kept = suppress(boxes, scores, classes, self._nms[classes], most)
        if not self._options.scale_to_input:
            boxes /= np.array([self._options.input_width, self._options.input_height] * 2)
        return [self._box(boxes[i], scores[i], int(classes[i])) for i in kept]

    def _decode(self, tensors: list[Floats]) -> list[Candidates]:
        head, values = self._head.form, 5 + self._options.classes
        if head == "boxes":
            return [read_boxes(self._options, tensors, self._conf)]
        if len(tensors) == 1 and head != "v3":
            rows = tensors[0]
            while rows.ndim > 2 and len(rows) == 1:
                rows = rows[0]
            if rows.ndim == 2 and rows.shape[1] == values:
                if head == "v5":
                    return [decode_ready(rows, self._conf)]
                tensors = split(rows, self._layers)
        if len(tensors) != len(self._layers):
            shape = tensors[0].shape
            hint = "; boxes without objectness are of head=v8" if values - 1 in shape else ""
            raise ValueError(
                f"got {len(tensors)} inputs; expected {len(self._layers)}, one for each of the "
                f"strides{hint}"
            )
        return decode(head, tensors, self._layers, self._conf)

    def _box(self, box: Floats, score: float, class_id: int) -> Box:
        x, y, w, h = box.tolist()
        label = self._labels[class_id] if self._labels else ""
        return Box(x, y, w, h, float(score), class_id, label)


def _layers(config: YoloPostprocessOptions) -> list[Layer]:
    layers = []
    pairs = np.array(config.anchors, np.float32).reshape(-1, 2)
    starts = [0, *accumulate(config.anchor_counts)]
    for number, (width, height) in enumerate(config.cells):
        stride = (config.input_width / width, config.input_height / height)
        anchors = pairs[starts[number] : starts[number + 1]]
        if config.form.form == "x":
            anchors = np.array([stride], np.float32)
        layers.append(Layer(width, height, stride, anchors))
    return layers


def _floats(data: Any, number: int, head: Head) -> Floats:
    kinds = "f" if head.has_cells else "fiu"  # classes may be whole numbers
    is_array = isinstance(data, np.ndarray) and data.dtype.kind in kinds
    if not is_array or (head.has_cells and not data.size):
        found = (
            f"a {data.dtype} array of shape {data.shape}"
            if isinstance(data, np.ndarray)
            else type(data).__name__
        )
        raise ValueError(f"tensor {number}: got {found}; expected a float32 array")
    with np.errstate(over="ignore"):  # larger numbers become infinite
        floats: Floats = data.astype(np.float32, copy=False)
    if not np.isfinite(floats).all():
        raise ValueError(
            f"tensor {number}: got numbers that are not finite in float32; expected finite ones"
        )
    return floats
