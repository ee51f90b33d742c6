"""``yolo_postprocess``: converts the tensors of a YOLO network to boxes."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option

# The anchors of the published YOLO v3 and v5, for the strides 8, 16 and 32.
_COCO_ANCHORS = (
    *(10.0, 13.0, 16.0, 30.0, 33.0, 23.0),
    *(30.0, 61.0, 62.0, 45.0, 59.0, 119.0),
    *(116.0, 90.0, 156.0, 198.0, 373.0, 326.0),
)


@dataclass(frozen=True)
class YoloPostprocessOptions:
    """The options of ``yolo_postprocess``."""

    input_width: int = option(help="The width of the network's input, in pixels.", minimum=1)
    input_height: int = option(help="The height of the network's input, in pixels.", minimum=1)
    classes: int = option(
        80, help="The number of classes.", aliases=("class_num",), minimum=1, maximum=100_000
    )
    head: Literal["v3", "v5", "x"] = option(
        "v3", help="The form of the tensors: YOLO v3 (v4 too), v5 (v7 too) or YOLOX."
    )
    conf_threshold: tuple[float, ...] = option(
        (0.25,),
        help="The least score of a box, which is its objectness times the score of its best class. "
        "Give one value, or one value for each class.",
        aliases=("score_threshold",),
        minimum=0,
        maximum=1,
    )
    nms_threshold: tuple[float, ...] = option(
        (0.45,),
        help="The greatest overlap (intersection over union) of two boxes of the same class. Give "
        "one value, or one value for each class.",
        minimum=0,
        maximum=1,
    )
    strides: tuple[int, ...] = option(
        (8, 16, 32),
        help="Input pixels per cell, one value for each tensor, in their order.",
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
            "the network's first raw tensor for one image: float32 (anchors * (5 + classes), H, "
            "W), or with these axes split or packed. For YOLO v5 and YOLOX also (N, 5 + classes), "
            "with all tensors in one. For v5 this form is already decoded",
        ),
        Port("in_feat2", "the second tensor, of the second stride", is_optional=True),
        Port("in_feat3", "the third tensor, of the third stride", is_optional=True),
    ),
    outputs=(
        Port(
            "out_region",
            "a list of Box, the best first. Boxes may exceed the image, because they are not "
            "clipped",
        ),
    ),
    options=YoloPostprocessOptions,
    description="Converts the tensors of YOLO v3, v5 and YOLOX to boxes.",
    group="Inference",
    is_compute_bound=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
