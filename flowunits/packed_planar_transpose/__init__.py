"""``packed_planar_transpose``: converts packed images to planar images."""

from modelflow import FlowUnitSpec, Port

SPEC = FlowUnitSpec(
    name="packed_planar_transpose",
    devices={
        "cpu": "flowunits.packed_planar_transpose.cpu:PackedPlanarTranspose",
        "cuda": "flowunits.packed_planar_transpose.cuda:PackedPlanarTranspose",
    },
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C), bgr, rgb or gray; planar images pass unchanged",
            dtype="uint8",
            shape="(H, W, C)",
        ),
    ),
    outputs=(
        Port(
            "out_image",
            "uint8, (C, H, W), the same pix_fmt, meta layout chw",
            dtype="uint8",
            shape="(C, H, W)",
        ),
    ),
    description="Converts packed images (hwc) to planar images (chw).",
    group="Image",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
)
