"""Tests that the image units of CUDA agree with the units of the CPU.

The tolerances are those of the units' documentation. Resizing differs by at most 1 of 255, and JPEG
pixels differ as nvJPEG and libjpeg do. All other results are equal.
"""

import numpy as np
import pytest

import flowunits
import modelflow
from modelflow import Buffer
from modelflow.image import Box, Image, convert_color
from modelflow.testing import check_flow_unit, run_unit
from tests.flowunits.conftest import planar_buffer
from tests.flowunits.test_conformance import SAMPLES
from tests.gpu.conftest import jpeg_difference

SPECS = {spec.name: spec for spec in flowunits.SPECS}
ON_CUDA = sorted(name for name, spec in SPECS.items() if "cuda" in spec.devices)
FORMATS = ("bgr", "rgb", "gray", "nv12", "bgrp", "rgbp")


def on_both(name, inputs, **options):
    """Returns a unit's results on the CPU and on CUDA, as lists of buffers."""
    found = []
    for device in ("cpu", "cuda"):
        (buffers,) = run_unit(SPECS[name], inputs, device=device, **options).values()
        found.append(buffers)
    return found


def check_same(name, inputs, tolerance=0, **options):
    on_cpu, on_cuda = on_both(name, inputs, **options)
    assert len(on_cpu) == len(on_cuda)
    for expected, got in zip(on_cpu, on_cuda, strict=True):
        assert got.get_error_msg() == expected.get_error_msg()
        assert got.meta == expected.meta
        if not expected.has_error():
            assert got.data.dtype == expected.data.dtype
            assert got.data.shape == expected.data.shape
            difference = np.abs(got.data.astype(np.float64) - expected.data)
            assert difference.max(initial=0) <= tolerance


@pytest.fixture
def images(photo, other_photo):
    """Returns photographs of two sizes and all layouts, and values that are no image."""
    gray = np.ascontiguousarray(photo[..., 1])
    rgb = Buffer(other_photo, {"pix_fmt": "rgb", "from": "elsewhere"})
    bad = [b"bytes", photo.astype(np.float32), Buffer(photo, {"width": 7}), photo[:0]]
    return [photo, other_photo, planar_buffer(photo), gray, *bad, rgb, photo[::-1].copy()]


def test_the_units_of_the_cuda_path_are_there():
    assert (
        sorted(
            [
                "center_crop",
                "color_convert",
                "crop",
                "image_decoder",
                "image_preprocess",
                "image_rotate",
                "letterbox",
                "mean",
                "normalize",
                "packed_planar_transpose",
                "padding",
                "resize",
            ]
        )
        == ON_CUDA
    )


@pytest.mark.parametrize("name", ON_CUDA)
def test_the_contract_of_units_holds_on_cuda(name):
    inputs, options = SAMPLES[name]
    check_flow_unit(SPECS[name], inputs, device="cuda", **options)


@pytest.mark.parametrize("size", [(224, 224), (37, 91), (640, 480), (319, 100), (100, 427)])
@pytest.mark.parametrize(
    ("interpolation", "tolerance"),
    [
        ("inter_nearest", 0),
        ("inter_nearest_exact", 0),
        ("inter_nn", 0),
        ("inter_linear", 1),
        ("inter_linear_exact", 1),
        ("inter_cubic", 1),
        ("inter_area", 1),
        ("inter_super", 1),
        ("inter_lanczos4", 1),
    ],
)
def test_resize(images, interpolation, tolerance, size):
    check_same(
        "resize",
        {"in_image": images},
        tolerance,
        width=size[0],
        height=size[1],
        interpolation=interpolation,
    )


def test_resize_keeps_the_ratio(images):
    check_same("resize", {"in_image": images}, 1, width=100, height=90, keep_ratio=True)


def test_center_crop(images):
    check_same("center_crop", {"in_image": images}, width=101, height=80)
    check_same("center_crop", {"in_image": images}, width=319, height=201)
    check_same("center_crop", {"in_image": images}, width=320, height=80)


def test_crop(images):
    regions = [(3, 4, 50, 60)] * 4 + [(0, 0, 1, 1)] * 4 + [Box(5, 6, 7, 8, 0.5), (300, 0, 60, 1)]
    check_same("crop", {"in_image": images, "in_region": regions})
    check_same("crop", {"in_image": images}, x=3, y=5, w=100, h=150)
    check_same("crop", {"in_image": images})


@pytest.mark.parametrize("options", [{}, {"align": "top_left"}, {"keep_ratio": False}], ids=str)
def test_letterbox(images, options):
    check_same("letterbox", {"in_image": images}, 1, width=300, height=200, **options)
    check_same("letterbox", {"in_image": images}, 1, width=64, height=64, padding_data=(9, 60, 200))


@pytest.mark.parametrize("align", ["top", "center", "bottom"])
def test_padding(images, align):
    across = {"top": "right", "center": "center", "bottom": "left"}[align]
    options = {"vertical_align": align, "horizontal_align": across, "padding_data": (9, 60, 200)}
    check_same("padding", {"in_image": images}, 1, width=300, height=300, **options)
    check_same("padding", {"in_image": images}, 0, width=700, height=430, need_scale=False)
    check_same("padding", {"in_image": images}, 0, width=400, height=430, need_scale=False)


@pytest.mark.parametrize("out_pix_fmt", FORMATS)
def test_color_convert(images, photo, out_pix_fmt):
    even = Image(np.ascontiguousarray(photo[:200, :318]), "bgr")
    every = [convert_color(even, pix_fmt).to_buffer() for pix_fmt in FORMATS]
    planar = convert_color(even, "bgr", "chw").to_buffer()
    check_same("color_convert", {"in_image": [*every, planar, *images]}, out_pix_fmt=out_pix_fmt)


@pytest.mark.parametrize("name", ["mean", "normalize"])
def test_scaling(images, photo, name):
    numbers = [photo.astype(kind) / 3 for kind in (np.float32, np.float64)]
    more = [np.arange(6, dtype=np.int32), np.full((2, 4), 3, np.int64), np.ones((2, 2, 2), bool)]
    inputs = {"in_data": [*images, *numbers, *more, None, np.ones((2, 3), complex)]}
    check_same(name, inputs, mean="1.5,20,103.94")
    check_same(name, inputs, mean="7")
    if name == "normalize":
        check_same(name, inputs, mean="1.5,2,3", standard_deviation_inverse="0.017,0.5,3")


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("pix_fmt", [None, "rgb", "gray"])
def test_image_preprocess(images, photo, layout, pix_fmt):
    even = Image(np.ascontiguousarray(photo[:200, :318]), "bgr")
    inputs = {"in_image": [*images, convert_color(even, "nv12").to_buffer()]}
    options = {"output_layout": layout, **({"out_pix_fmt": pix_fmt} if pix_fmt else {})}
    check_same("image_preprocess", inputs, mean="3", **options)
    check_same(
        "image_preprocess", inputs, mean="1,2,3", standard_deviation_inverse="2,3,0.1", **options
    )


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_image_rotate(images, photo, angle):
    check_same("image_rotate", {"in_image": images}, rotate_angle=angle)
    turning = [Buffer(photo, {"rotate_angle": given}) for given in (angle, angle + 360, 45, "x")]
    check_same("image_rotate", {"in_image": [*turning, photo]})


def test_packed_planar_transpose(images):
    check_same("packed_planar_transpose", {"in_image": images})


@pytest.mark.parametrize("size", [(32, 24), (318, 24), (17, 400), (640, 400)])
@pytest.mark.parametrize(
    ("interpolation", "tolerance"),
    [
        ("inter_linear", 1),
        ("inter_area", 1),
        # Which of the two passes comes first depends on Pillow's version and the size. Values that
        # the first pass overshoots are cut off.
        ("inter_cubic", 4),
        ("inter_lanczos4", 4),
    ],
)
def test_resize_with_antialias(photo, interpolation, tolerance, size):
    check_same(
        "resize",
        {"in_image": [photo]},
        tolerance,
        width=size[0],
        height=size[1],
        interpolation=interpolation,
        antialias=True,
    )


GRAPH = """digraph classify {
    input [type=input]
    decode [flowunit=image_decoder]
    resize [image_width=64, image_height=48]
    mean [mean="123.68,116.78,103.94"]
    output [type=output]
    input -> decode -> resize -> mean -> output
}"""


NODES = ("decode", "resize", "mean")


def run(path, jpegs, **settings):
    with modelflow.Flow(path, overrides=settings) as flow:
        stream = flow.create_stream_io()
        for jpeg in jpegs:
            stream.send("input", jpeg)
        stream.close_input()
        found = [stream.recv("output") for _ in jpegs]
        return found, flow.stats()


def test_one_graph_file_runs_on_either_device(tmp_path, photo, other_photo, encode):
    path = tmp_path / "graph.dot"
    path.write_text(GRAPH)
    jpegs = [encode(photo), encode(other_photo), encode(photo, progressive=True)] * 15
    on_cpu, stats = run(path, jpegs)
    assert [stats[name].moved for name in NODES] == [0, 0, 0]
    settings = {"resize.device": "cuda", "mean.device": "cuda"}
    half, stats = run(path, jpegs, **settings)
    assert [stats[name].moved for name in NODES] == [0, 45, 45]
    whole, stats = run(path, jpegs, **settings, **{"decode.device": "cuda"})
    assert [stats[name].moved for name in NODES] == [0, 0, 45]
    for expected, *others in zip(on_cpu, half, whole, strict=True):
        for got in others:
            assert isinstance(got.data, np.ndarray)
            assert got.meta == expected.meta
            assert np.abs(got.data - expected.data).mean() <= jpeg_difference() + 1
