"""Tests that an image's format belongs to its array, with custom units between any two image units.

The reference is OpenCV, which reads the PNG at the end of the graph. Red must stay red.
"""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from modelflow import Buffer, Count, Flow, FlowUnit, FlowUnitSpec, Port, Stream, flowunit
from modelflow.errors import FlowUnitError
from modelflow.image import ChannelScale, like, read_image
from modelflow.pixels import format_of, size_of

RED = np.zeros((6, 8, 3), np.uint8)
RED[..., 2] = 200  # blue, green, red, as OpenCV has them
PNG = cv2.imencode(".png", RED)[1].tobytes()

FORMATS = ["bgr", "rgb", "gray", "bgrp", "rgbp"]


@flowunit
def cropped(image):
    return image[:, :4]


@flowunit
def copied(image):
    return image[:, :4].copy()


@flowunit
def resized(image):
    return cv2.resize(image, (4, 3))


@flowunit
def flipped(image):
    return np.ascontiguousarray(image[..., ::-1, :])


@flowunit
def lighter(image):
    return image + np.uint8(1)


@flowunit
def unchanged(image):
    return image


@flowunit
def as_bytes(image):
    return image.tobytes()


@flowunit
def as_row(image):
    return image.reshape(-1)


@flowunit
def as_mask(image):
    """Returns a gray image for any input."""
    return np.full(image.shape[:2], 60, np.uint8)


OWN = [cropped, copied, resized, flipped, lighter, unchanged, as_bytes, as_row]

NEXT = {
    "resize": "flowunit=resize width=4 height=4",
    "crop": "flowunit=crop w=2 h=2",
    "center_crop": "flowunit=center_crop width=2 height=2",
    "padding": "flowunit=padding width=16 height=4 horizontal_align=center",
    "rotate": "flowunit=image_rotate rotate_angle=90",
    "convert": "flowunit=color_convert out_pix_fmt=rgb",
    "planes": "flowunit=packed_planar_transpose",
}


def colours(graph, *units):
    """Runs a graph over the red picture; returns red, green and blue of the result's middle."""
    ends = "input [type=input] png [flowunit=image_encoder format=png] output [type=output]"
    with Flow(
        f"digraph {{ {ends} {graph} png -> output }}", units=[unit.SPEC for unit in units]
    ) as flow:
        png = flow.infer(PNG).data
    found = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    blue, green, red = map(int, found[found.shape[0] // 2, found.shape[1] // 2])
    return red, green, blue


def is_red(found, pix_fmt="rgb"):
    red, green, blue = found
    if pix_fmt == "gray":
        return red == green == blue and abs(red - 60) <= 1
    return abs(red - 200) <= 1 and green <= 1 and blue <= 1


CELLS = [
    (own, pix_fmt, then)
    for own in OWN
    for pix_fmt in FORMATS
    for then in NEXT
    if own is not resized or pix_fmt in ("bgr", "rgb", "gray")  # OpenCV resizes packed images only
]


@pytest.mark.parametrize(
    ("own", "pix_fmt", "then"), CELLS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_unit_with_one_image_keeps_its_colours(own, pix_fmt, then):
    found = colours(
        f"decode [flowunit=image_decoder pix_fmt={pix_fmt}] own [flowunit={own.__name__}] "
        f"then [{NEXT[then]}] "
        "input -> decode -> own own -> then:in_image then -> png",
        own,
    )
    assert is_red(found, pix_fmt)


@pytest.mark.parametrize("pix_fmt", ["rgb", "bgr", "gray", "rgbp"])
def test_what_has_other_axes_is_no_image_of_that_format(pix_fmt):
    found = colours(
        f"decode [flowunit=image_decoder pix_fmt={pix_fmt}] own [flowunit=as_mask] "
        "input -> decode -> own -> png",
        as_mask,
    )
    assert found == (60, 60, 60)


# -- two inputs, of which one is of another format ------------------------------------------------


def second(result):
    @flowunit(outputs=("out",))
    def scores_first(scores, image):
        return result(image)

    return scores_first


def first(result):
    @flowunit(outputs=("out",))
    def image_first(image, scores):
        return result(image)

    return image_first


RESULTS = {
    "itself": lambda image: image,
    "view": lambda image: image[:, ::-1],
    "copy": lambda image: image.copy(),
    "resized": lambda image: cv2.resize(image, (4, 4)),
}


@pytest.mark.parametrize("order", [first, second])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize(("image", "other"), [("rgb", "bgr"), ("bgr", "rgb"), ("rgb", "gray")])
def test_scores_of_an_image_of_another_format_do_not_change_colours(order, result, image, other):
    @flowunit
    def scores(pixels):
        return pixels.reshape(-1, pixels.shape[-1]).mean(axis=0)

    own = order(RESULTS[result])
    name, ports = own.SPEC.name, [port.name for port in own.SPEC.inputs]
    found = colours(
        f"decode [flowunit=image_decoder pix_fmt={image}] "
        f"other [flowunit=color_convert out_pix_fmt={other}] scores own [flowunit={name}] "
        "input -> decode -> own:image "
        "decode -> other -> scores -> own:scores own -> png",
        scores,
        own,
    )
    assert ports[0] == ("image" if order is first else "scores")
    assert is_red(found)


@pytest.mark.parametrize("order", [first, second])
@pytest.mark.parametrize("result", ["itself", "view"])
@pytest.mark.parametrize(("image", "other"), [("rgb", "bgr"), ("bgr", "rgb")])
def test_of_two_images_a_result_has_the_format_of_the_one_it_is_of(order, result, image, other):
    own = order(RESULTS[result])
    found = colours(
        f"decode [flowunit=image_decoder pix_fmt={image}] "
        f"other [flowunit=color_convert out_pix_fmt={other}] own [flowunit={own.SPEC.name}] "
        "input -> decode -> own:image decode -> other -> own:scores own -> png",
        own,
    )
    assert is_red(found)


MIXED = (
    "decode [flowunit=image_decoder pix_fmt=rgb] "
    "other [flowunit=color_convert out_pix_fmt=bgr] own [flowunit={}] "
    "input -> decode -> own:image decode -> other -> own:scores own -> png"
)


def test_a_new_array_of_two_images_of_two_formats_is_refused_with_what_to_do():
    own = first(lambda image: image.copy())
    with pytest.raises(
        FlowUnitError,
        match=r"got pix_fmt 'rgb hwc or bgr hwc'; expected .* modelflow\.image\.like\(image, array",
    ):
        colours(MIXED.format("image_first"), own)


def test_like_says_of_which_of_two_images_an_array_is_made():
    class Blend(FlowUnit):
        SPEC = FlowUnitSpec(
            name="blend",
            devices={"cpu": lambda: Blend()},
            inputs=(Port("image"), Port("scores")),
            outputs=(Port("out"),),
        )

        def process(self, ctx):
            ctx.emit_each(lambda image, scores: like(image, image.data.copy()), "image", "scores")

    assert is_red(colours(MIXED.format("blend"), Blend))


@pytest.mark.parametrize("is_image_first", [True, False])
def test_a_condition_passes_an_image_with_its_colours(is_image_first):
    if is_image_first:

        @flowunit(kind="condition", outputs=("yes", "no"))
        def choose(image, scores):
            return "yes"

    else:

        @flowunit(kind="condition", outputs=("yes", "no"))
        def choose(scores, image):
            return {"yes": image}

    found = colours(
        "decode [flowunit=image_decoder pix_fmt=rgb] "
        "other [flowunit=color_convert out_pix_fmt=bgr] choose "
        "input -> decode -> choose:image decode -> other -> choose:scores "
        "choose:yes -> png choose:no -> png",
        choose,
    )
    assert is_red(found)


# -- expand and collapse --------------------------------------------------------------------------


@flowunit(kind="expand")
def tiles(image):
    yield image[:3]
    yield image[3:].copy()


@flowunit(kind="collapse")
def joined(parts):
    return np.concatenate(parts)


@pytest.mark.parametrize("pix_fmt", ["bgr", "rgb", "gray"])
def test_tiles_and_what_is_joined_of_them_keep_colours_and_meta(pix_fmt):
    graph = (
        f"digraph {{ input [type=input] decode [flowunit=image_decoder pix_fmt={pix_fmt}] tiles "
        "resize [width=8 height=2] joined "
        "png [flowunit=image_encoder format=png] output [type=output] "
        "input -> decode -> tiles -> resize -> joined -> png -> output }"
    )
    with Flow(graph, units=[tiles, joined]) as flow:
        answer = flow.infer(Buffer(PNG, {"path": "red.png"}))
    found = cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_COLOR)
    assert found.shape == (4, 8, 3)
    assert is_red(tuple(map(int, found[1, 1, ::-1])), pix_fmt)
    assert answer.get("path") == "red.png"


def test_a_collapse_keeps_the_meta_that_all_parts_agree_on():
    @flowunit(kind="expand")
    def numbered(image):
        for number in range(3):
            yield Buffer(image, {"number": number, "table": [number], "pix_fmt": "rgb"})

    with Flow(
        "digraph { input [type=input] numbered joined output [type=output] "
        "input -> numbered -> joined -> output }",
        units=[numbered, joined],
    ) as flow:
        answer = flow.infer(Buffer(RED, {"path": "a", "same": [1]}))
    assert answer.meta == {"path": "a", "same": [1], "pix_fmt": "rgb"}


class Steady(FlowUnit):
    """Returns each frame as changed by `CHANGES`."""

    SPEC = FlowUnitSpec(
        name="steady",
        devices={"cpu": lambda: Steady()},
        inputs=(Port("in"),),
        outputs=(Port("out"),),
        kind=Stream(Count.SAME),
    )
    change = staticmethod(lambda frame: frame.data)

    def process(self, ctx):
        ctx.emit([self.change(frame) for frame in ctx.input()])


CHANGES = {
    "itself": lambda frame: frame.data,
    "view": lambda frame: frame.data[:, ::-1],
    "copy": lambda frame: frame.data.copy(),
    "other size": lambda frame: cv2.resize(frame.data, (4, 3)),
    "like": lambda frame: like(frame, frame.data.copy()),
}


@pytest.mark.parametrize("count", [Count.SAME, Count.ANY])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("pix_fmt", ["rgb", "bgr"])
def test_a_stream_unit_keeps_colours_and_meta_where_it_is_sure(
    change, count, pix_fmt, monkeypatch, caplog
):
    monkeypatch.setattr(Steady, "change", staticmethod(CHANGES[change]))
    spec = replace(Steady.SPEC, kind=Stream(count))
    graph = (
        f"digraph {{ input [type=input] decode [flowunit=image_decoder pix_fmt={pix_fmt}] steady "
        "png [flowunit=image_encoder format=png] output [type=output] "
        "input -> decode -> steady -> png -> output }"
    )
    with Flow(graph, units=[spec]) as flow, flow.create_stream_io() as stream:
        stream.send("input", Buffer(PNG, {"path": "red.png"}))
        stream.close_input()
        answer = stream.recv("output")
    found = cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_COLOR)
    assert is_red(tuple(map(int, found[1, 1, ::-1])))
    is_told = count is Count.SAME or change in ("itself", "like")
    assert answer.get("path") == ("red.png" if is_told else None)
    noted = [text for text in caplog.messages if "they lose the meta 'path'" in text]
    assert len(noted) == (0 if is_told else 1)


def test_what_a_stream_unit_gives_at_its_end_has_the_format_of_what_came():
    class Last(FlowUnit):
        SPEC = FlowUnitSpec(
            name="last",
            devices={"cpu": lambda: Last()},
            inputs=(Port("in"),),
            outputs=(Port("out"),),
            kind=Stream(),
        )

        def process(self, ctx):
            ctx.state["last"] = ctx.input()[-1].data.copy()

        def stream_end(self, ctx):
            ctx.emit([ctx.state["last"]])

    graph = (
        "digraph { input [type=input] decode [flowunit=image_decoder pix_fmt=rgb] last "
        "png [flowunit=image_encoder format=png] output [type=output] "
        "input -> decode -> last -> png -> output }"
    )
    with Flow(graph, units=[Last]) as flow, flow.create_stream_io() as stream:
        stream.send("input", PNG)
        stream.close_input()
        png = stream.recv("output").data
    found = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert is_red(tuple(map(int, found[1, 1, ::-1])))


# -- sizes ----------------------------------------------------------------------------------------


def test_the_sizes_of_an_image_are_those_of_its_array_whatever_the_meta_say():
    stale = Buffer(RED, {"pix_fmt": "rgb", "width": 99, "height": 99, "channel": 1})
    assert stale.get_many("width", "height", "channel", "width_stride") == (8, 6, 3, 24)
    assert read_image(stale).data.shape == (6, 8, 3)
    stale.data = RED[:, :4]
    assert stale.get("width") == 4


def test_sizes_that_are_no_images_stay_what_was_said():
    boxes = Buffer(np.zeros((5, 6), np.float32), {"pix_fmt": "bgr", "width": 640})
    assert boxes.get("width") == 640
    assert Buffer({"boxes": []}, {"width": 640}).get("width") == 640


@pytest.mark.parametrize(
    ("shape", "pix_fmt", "layout", "expected"),
    [
        ((6, 8, 3), "rgb", None, (8, 6, 3)),
        ((3, 6, 8), "rgb", "chw", (8, 6, 3)),
        ((3, 6, 8), "rgbp", None, (8, 6, 3)),
        ((6, 8, 1), "gray", "hwc", (8, 6, 1)),
        ((6, 8), "gray", None, (8, 6, 1)),
        ((9, 8), "nv12", None, (8, 6, 1)),
        ((6, 8, 3), "gray", None, None),
        ((6, 8, 3), "rgb", "chw", None),
        ((10, 8), "nv12", None, None),
        ((6, 8), "rgb", None, None),
        ((6, 8, 3), ["rgb"], None, None),
        ((2, 6, 8, 3), "rgb", None, None),
    ],
)
def test_a_size_follows_from_the_array_and_its_format(shape, pix_fmt, layout, expected):
    assert size_of(np.zeros(shape, np.uint8), pix_fmt, layout) == expected


def test_whoever_writes_the_meta_of_an_image_writes_its_size():
    image = Buffer(RED, {"pix_fmt": "rgb", "path": "a"})
    assert image.all_meta() == {"path": "a", "pix_fmt": "rgb", **image.sizes()}
    assert image.sizes()["width"] == 8
    assert image.meta == {"pix_fmt": "rgb", "path": "a"}
    assert Buffer("text").all_meta() == {}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_is_collapsed_of_no_part_has_the_meta_of_what_was_expanded(count):
    @flowunit(kind="expand")
    def parts(image):
        return [image] * count

    @flowunit(kind="collapse")
    def whole(parts):
        return parts[0].copy() if parts else np.full((2, 2, 3), (200, 0, 0), np.uint8)

    graph = (
        "digraph { input [type=input] decode [flowunit=image_decoder pix_fmt=rgb] parts whole "
        "png [flowunit=image_encoder format=png] output [type=output] "
        "input -> decode -> parts -> whole -> png -> output }"
    )
    with Flow(graph, units=[parts, whole]) as flow:
        answer = flow.infer(Buffer(PNG, {"path": "red.png"}))
    found = cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_COLOR)
    assert is_red(tuple(map(int, found[1, 1, ::-1])))
    assert answer.get("path") == "red.png"


def test_what_is_collapsed_of_an_error_that_a_unit_has_dropped_has_the_meta_of_what_was_expanded():
    @flowunit(kind="expand")
    def parts(value):
        raise ValueError(value)

    class Drop(FlowUnit):
        """Returns nothing for rows in error."""

        SPEC = FlowUnitSpec(
            name="drop",
            devices={"cpu": lambda: Drop()},
            inputs=(Port("in"),),
            outputs=(Port("out"),),
            kind=Stream(),
            is_exception_visible=True,
        )

        def process(self, ctx):
            ctx.emit([row for row in ctx.input() if row.error is None])

    @flowunit(kind="collapse")
    def whole(parts):
        return len(parts)

    graph = (
        "digraph { input [type=input] output [type=output] "
        "drop [is_exception_visible=true] input -> parts -> drop -> whole -> output }"
    )
    with Flow(graph, units=[parts, Drop, whole]) as flow:
        answer = flow.infer(Buffer(1, {"path": "one"}))
    assert (answer.data, answer.meta) == (0, {"path": "one"})


def test_one_format_in_two_spellings_is_one():
    image = np.zeros((6, 8, 3), np.uint8)
    both = [(image, ("rgb", None), (8, 6, 3)), (image.copy(), ("rgb", "hwc"), (8, 6, 3))]
    assert format_of(image.copy(), both) == {"pix_fmt": "rgb"}
    planes = np.zeros((3, 6, 8), np.uint8)
    both = [(planes, ("bgrp", None), (8, 6, 3)), (planes.copy(), ("bgr", "chw"), (8, 6, 3))]
    assert format_of(planes.copy(), both) == {"pix_fmt": "bgrp"}


@pytest.mark.parametrize("meta", [{"pix_fmt": ["rgb"]}, {"layout": {}}, {"pix_fmt": np.zeros(2)}])
def test_meta_that_are_no_format_do_no_harm(meta):
    graph = "digraph { input [type=input] copied output [type=output] "
    with Flow(graph + "input -> copied -> output }", units=[copied.SPEC, unchanged.SPEC]) as flow:
        answer = flow.infer(Buffer(RED, {"path": "a", **meta}))
    assert answer.meta == {"path": "a"}


def test_numbers_of_a_doubtful_format_are_not_scaled():
    doubtful = Buffer(RED, {"pix_fmt": "rgb hwc or bgr hwc"})
    (found,) = ChannelScale((1, 2, 3)).read_all([doubtful])
    assert "modelflow.image.like(image, array)" in str(found)
