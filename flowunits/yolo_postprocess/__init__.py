"""``yolo_postprocess``: converts the tensors of a detector (YOLO, RT-DETR, SSD) to boxes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from modelflow import FlowUnitSpec, Port, option

# The anchors of the published YOLO v3 and v5, for the strides 8, 16 and 32.
_COCO_ANCHORS = (
    *(10.0, 13.0, 16.0, 30.0, 33.0, 23.0),
    *(30.0, 61.0, 62.0, 45.0, 59.0, 119.0),
    *(116.0, 90.0, 156.0, 198.0, 373.0, 326.0),
)

BoxFormat = Literal["cxcywh", "xyxy", "yxyx"]
HeadName = Literal[
    "v3", "v4", "v5", "v7", "v8", "v9", "v10", "v11", "v12", "v26", "x", "rtdetr", "ssd"
]


@dataclass(frozen=True)
class Head:
    """The form of a detector's tensors.

    Attributes:
        form: ``v3 v5 x`` for raw tensors with a cell for each place, or ``boxes`` if the network
            computes boxes itself (``rows.py``).
        box_format: The numbers of a candidate's box: its middle and size, or two corners.
        found_format: The same for boxes with one score and class each.
        is_in_fractions: Whether boxes are in fractions of the input's size, not in pixels.
        is_suppressed: Whether the network returns no overlapping candidates.
    """

    form: Literal["v3", "v5", "x", "boxes"]
    box_format: BoxFormat = "cxcywh"
    found_format: BoxFormat = "xyxy"
    is_in_fractions: bool = False
    is_suppressed: bool = False

    @property
    def has_cells(self) -> bool:
        """Tells whether the tensors have a cell for each place, with strides and anchors."""
        return self.form != "boxes"


_BOXES = Head("boxes")
HEADS: dict[HeadName, Head] = {
    "v3": Head("v3"),
    "v4": Head("v3"),
    "v5": Head("v5"),
    "v7": Head("v5"),
    "x": Head("x"),
    "v8": _BOXES,
    "v9": _BOXES,
    "v10": _BOXES,
    "v11": _BOXES,
    "v12": _BOXES,
    "v26": _BOXES,
    "rtdetr": Head("boxes", "cxcywh", "cxcywh", is_in_fractions=True, is_suppressed=True),
    "ssd": Head("boxes", "xyxy", "xyxy", is_in_fractions=True, is_suppressed=True),
}
"""Value of the option ``head`` -> the form of the tensors."""


@dataclass(frozen=True)
class YoloPostprocessOptions:
    """The options of ``yolo_postprocess``."""

    input_width: int = option(help="The width of the network's input, in pixels.", minimum=1)
    input_height: int = option(help="The height of the network's input, in pixels.", minimum=1)
    classes: int = option(
        80, help="The number of classes.", aliases=("class_num",), minimum=1, maximum=100_000
    )
    head: HeadName = option(  # noqa: RUF009 - a field, as the others
        "v3",
        help="The detector: a version of YOLO, x (YOLOX), rtdetr or ssd. Exports with or without "
        "suppression (nms=True) are told apart by their shapes.",
    )
    box_format: BoxFormat | None = option(  # noqa: RUF009
        None,
        help="The numbers of a box in the tensors: middle and size, or two corners. By default "
        "cxcywh for candidates and for rtdetr, xyxy for boxes after suppression and for ssd.",
    )
    boxes_in: Literal["pixels", "fractions"] | None = option(
        None,
        help="The unit of the boxes in the tensors. By default fractions of the input's size for "
        "rtdetr and ssd, else pixels. Some exports for TensorFlow return fractions.",
    )
    logits: bool = option(
        False,
        help="Convert class scores to probabilities by the sigmoid first, for v8 and later, "
        "and rtdetr. RT-DETR of Transformers returns logits.",
    )
    first_class: int = option(
        0,
        help="The number of the first class in the tensors. SSD often counts from 1, because 0 is "
        "the background.",
        minimum=0,
    )
    conf_threshold: tuple[float, ...] = option(
        (0.25,),
        help="The least score of a box: the score of its best class, times its objectness if the "
        "head has one. Give one value, or one value for each class.",
        aliases=("score_threshold",),
        minimum=0,
        maximum=1,
    )
    nms_threshold: tuple[float, ...] = option(
        (0.45,),
        help="The greatest overlap (intersection over union) of two boxes of the same class. Give "
        "one value, or one value for each class. Boxes that a network has suppressed itself are "
        "all kept.",
        minimum=0,
        maximum=1,
    )
    strides: tuple[int, ...] = option(
        (8, 16, 32),
        help="Input pixels per cell, one value for each tensor, in their order. Only v3, v4, v5, "
        "v7 and x have strides.",
        minimum=1,
    )
    anchors: tuple[float, ...] = option(
        _COCO_ANCHORS,
        help="Widths and heights of the anchors in input pixels, tensor by tensor. YOLOX has no "
        "anchors.",
        aliases=("anchor_biases",),
        minimum=0,
    )
    anchor_num: tuple[int, ...] = option(
        (),
        help="The number of anchors of each tensor. By default all tensors have the same number.",
        minimum=1,
    )
    yolo_output_layer_num: int | None = option(
        None,
        help="The number of tensors. By default there is one for each stride.",
        minimum=1,
        maximum=16,
    )
    yolo_output_layer_wh: tuple[int, ...] = option(
        (),
        help="Width and height of each tensor, in cells. By default the input's size divided by "
        "the strides.",
        minimum=1,
    )
    scale_to_input: bool = option(
        True,
        help="Emit boxes in pixels of the network's input. If false, in fractions of its size, "
        "0..1.",
    )
    max_boxes: int = option(300, help="The most boxes of an output buffer.", minimum=1)
    labels: str | None = option(None, help="A text file of class names, one a line.", is_path=True)

    def __post_init__(self) -> None:
        """Checks the options against each other.

        Raises:
            ValueError: the strides do not divide the input size, or a list has the wrong length.
        """
        for name in ("conf_threshold", "nms_threshold"):
            count = len(getattr(self, name))
            if count not in (1, self.classes):
                raise ValueError(
                    f"option {name!r}: got {count} values; expected 1 or {self.classes}"
                )
        if not self.form.has_cells:
            return
        if self.box_format or self.boxes_in or self.first_class or self.logits:
            raise ValueError(
                "options 'box_format', 'boxes_in', 'first_class' and 'logits': expected none for "
                f"the head {self.head!r}, whose boxes are computed from cells"
            )
        cells = len(self.cells)
        if self.yolo_output_layer_num not in (None, cells):
            raise ValueError(
                f"option 'yolo_output_layer_num': got {self.yolo_output_layer_num}; expected "
                f"{cells}, as the sizes of the tensors are given"
            )
        counts = self.anchor_counts
        if self.head != "x" and (len(counts) != cells or 2 * sum(counts) != len(self.anchors)):
            raise ValueError(
                f"option 'anchors': got {len(self.anchors)} numbers for {cells} tensors of "
                f"{counts} anchors; expected two numbers an anchor"
            )

    @cached_property
    def form(self) -> Head:
        """The form of the tensors: that of the head, with the options about boxes."""
        head = HEADS[self.head]
        is_in_fractions = self.boxes_in == "fractions" if self.boxes_in else head.is_in_fractions
        box_format = self.box_format or head.box_format
        found_format = self.box_format or head.found_format
        return replace(
            head,
            box_format=box_format,
            found_format=found_format,
            is_in_fractions=is_in_fractions,
        )

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """The width and height of each tensor, in cells."""
        sizes = self.yolo_output_layer_wh
        if sizes:
            if len(sizes) % 2:
                raise ValueError(
                    f"option 'yolo_output_layer_wh': got {len(sizes)} values; expected pairs"
                )
            return tuple(zip(sizes[::2], sizes[1::2], strict=True))
        for stride in self.strides:
            if self.input_width % stride or self.input_height % stride:
                raise ValueError(
                    f"input {self.input_width} x {self.input_height}: expected a multiple of the "
                    f"stride {stride}"
                )
        return tuple((self.input_width // s, self.input_height // s) for s in self.strides)

    @property
    def anchor_counts(self) -> tuple[int, ...]:
        """The number of anchors of each tensor."""
        if self.anchor_num:
            return self.anchor_num
        tensors = len(self.cells)
        return (len(self.anchors) // 2 // tensors,) * tensors


SPEC = FlowUnitSpec(
    name="yolo_postprocess",
    devices={"cpu": "flowunits.yolo_postprocess.cpu:YoloPostprocess"},
    inputs=(
        Port(
            "in_feat1",
            "the first tensor for one image, float32. v3, v4, v5, v7, x: (anchors * (5 + classes), "
            "H, W), or these axes split or packed. Except for v3 and v4 also (N, 5 + classes), all "
            "tensors in one. Other heads: candidates (4 + classes, N) or (N, 4 + classes). After "
            "suppression: (N, 6) of box, score, class",
        ),
        Port(
            "in_feat2",
            "the second tensor, of the second stride. If boxes (N, 4) are a tensor of their "
            "own, connect these first, then the scores (N, classes) or (N,)",
            is_optional=True,
        ),
        Port(
            "in_feat3",
            "the third tensor, of the third stride. Behind boxes and scores: the classes (N,)",
            is_optional=True,
        ),
    ),
    outputs=(
        Port(
            "out_region",
            "a list of Box, the best first. Boxes may exceed the image, because they are not "
            "clipped. Boxes without width or height are left out",
        ),
    ),
    options=YoloPostprocessOptions,
    description="Converts the tensors of YOLO v3 to v26, YOLOX, RT-DETR and SSD to boxes.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
