import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.runtime.stages.inheriting import StreamInputs, inherit, inherit_whole, strip_data

PIXELS = np.zeros((6, 8, 3), np.uint8)


def result(data, *sources, of=inherit):
    buffer = data if isinstance(data, Buffer) else Buffer(data)
    of(buffer, list(sources))
    return buffer


def agreed(buffer, columns):
    """Inherits from parts of a row with all their keys."""
    inherit_whole(buffer, columns, ())


def test_meta_that_began_inside_a_stream_do_not_leave_the_stream():
    origin = [Buffer(0, {"path": "a", "side": "left"})]
    for count in (1, 2):
        parts = [Buffer(n, {"path": "a", "side": "right", "score": 1}) for n in range(count)]
        found = Buffer(9)
        inherit_whole(found, [parts], origin)
        assert found.meta == {"path": "a", "side": "left"}


def test_a_key_set_to_none_is_removed():
    source = Buffer(1, {"path": "a", "place": (1, 2)})
    assert result(Buffer(2, {"place": None}), source).meta == {"path": "a"}
    image = Buffer(PIXELS, {"pix_fmt": "rgb", "layout": "hwc", "place": 1})
    assert result(Buffer([], {"place": None, "x": 1}), image).meta == {"x": 1}
    assert result(Buffer(2, {"place": None})).meta == {}
    plain = Buffer(PIXELS, {"pix_fmt": "rgb", "layout": "hwc"})
    own = {"pix_fmt": "bgr", "layout": "hwc", "place": None}
    assert result(Buffer(PIXELS, own), plain).meta == {"pix_fmt": "bgr", "layout": "hwc"}


def test_what_the_result_has_not_comes_from_the_first_input_that_has_it():
    a, b = Buffer(1, {"path": "a", "x": 1}), Buffer(2, {"path": "b", "y": 2})
    assert result(Buffer(3, {"x": 0}), a, b).meta == {"x": 0, "path": "a", "y": 2}


def test_the_format_goes_along_with_an_image_and_with_nothing_else():
    image = Buffer(PIXELS, {"pix_fmt": "rgb", "layout": "hwc", "path": "a"})
    assert result(PIXELS.copy(), image).meta == image.meta
    assert result([0.5], image).meta == {"path": "a"}
    assert result(np.zeros(5), image).meta == {"path": "a"}
    own = Buffer(PIXELS.copy(), {"pix_fmt": "bgr"})
    assert result(own, image).meta == {"pix_fmt": "bgr", "path": "a"}


@pytest.mark.parametrize("meta", [{}, {"pix_fmt": "rgb"}, {"path": "a"}], ids=str)
@pytest.mark.parametrize("layout", ["hwc", "chw", None, 3], ids=str)
@pytest.mark.parametrize("pix_fmt", ["rgb", "gray", "bgrp", "nv12", "rgba", None, ["rgb"]], ids=str)
def test_one_image_gives_what_two_equal_images_give(pix_fmt, layout, meta):
    shapes = (6, 8, 3), (6, 8, 1), (3, 6, 8), (6, 8), (5,), (), (2, 6, 8, 3), (6, 8, 4)
    for shape in shapes:
        for dtype in (np.uint8, np.float32):
            data = np.zeros(shape, dtype)
            for other in (*shapes, None):
                pixels = [0] if other is None else np.zeros(other, np.uint8)
                image = Buffer(pixels, {"pix_fmt": pix_fmt, "layout": layout})
                more = {} if pix_fmt is None else {"pix_fmt": pix_fmt}
                for given in (image, Buffer(pixels, {**more, "path": "b"})):
                    one, two = (result(Buffer(data, meta), *[given] * n).meta for n in (1, 2))
                    assert one == two, (shape, dtype, other)


def test_pixels_in_one_row_get_the_size_that_they_had():
    image = Buffer(PIXELS, {"pix_fmt": "rgb", "layout": "hwc"})
    row = result(PIXELS.tobytes(), image)
    assert row.get_many("width", "height", "channel", "pix_fmt") == (8, 6, 3, "rgb")
    assert result(PIXELS.tobytes()[1:], image).meta == {}


def test_a_size_that_is_none_of_an_image_is_the_items():
    boxes = Buffer({"boxes": []}, {"width": 640, "height": 480})
    assert result([1], boxes).meta == {"width": 640, "height": 480}


def test_an_array_of_an_input_without_a_format_has_none():
    plain, image = Buffer(PIXELS.copy()), Buffer(PIXELS, {"pix_fmt": "rgb"})
    assert result(plain.data[:, :4], image, plain).meta == {}
    assert result(PIXELS[:, :4], image, plain).meta == {"pix_fmt": "rgb"}


def test_meta_stay_the_others_own():
    source = Buffer(1, {"path": "a"})
    found = result(2, source)
    found.set("path", "b")
    assert source.get("path") == "a"


@pytest.mark.parametrize("value", [1, "a", None, 0.5, True, b"x"])
def test_parts_agree_on_equal_values(value):
    parts = [Buffer(0, {"same": value, "other": number}) for number in range(3)]
    assert result(9, parts, of=agreed).meta == {"same": value}


def test_parts_do_not_agree_on_what_may_compare_in_any_way():
    parts = [Buffer(0, {"box": np.zeros(4), "list": [1]}) for _ in range(2)]
    shared = {"box": np.zeros(4)}
    same = [Buffer(0, shared), Buffer(1, shared)]
    assert result(9, parts, of=agreed).meta == {}
    assert list(result(9, same, of=agreed).meta) == ["box"]
    assert result(9, [Buffer(0, {"a": 1}), Buffer(0, {"a": True})], of=agreed).meta == {}


def given(data, *calls):
    """Returns the meta that a stream unit of any count gives a buffer in the last of some calls."""
    inputs, buffer = StreamInputs(), Buffer(data)
    for sources in calls:
        inputs.begin(sources)
    inputs.give(buffer)
    return buffer.meta


def test_of_any_count_an_input_has_all_and_another_array_the_format_of_the_stream():
    frame = Buffer(PIXELS, {"pix_fmt": "rgb", "index": 4})
    assert given(PIXELS, [frame]) == frame.meta
    assert given(PIXELS[:, ::-1], [frame]) == given(PIXELS.copy(), [frame]) == {"pix_fmt": "rgb"}
    assert given(PIXELS.copy(), [frame], []) == {"pix_fmt": "rgb"}
    assert given("text", [Buffer("text", {"a": 1})]) == {}
    assert given([0.5], [frame]) == {}


def test_of_any_count_a_part_has_its_own_meta_and_none_of_another():
    tiles = [Buffer(PIXELS[:, x : x + 2], {"x": x, "pix_fmt": "rgb"}) for x in (0, 2, 4)]
    assert given(tiles[2].data, tiles) == tiles[2].meta


def test_of_any_count_a_stream_of_two_formats_gives_neither():
    first, second = Buffer(PIXELS, {"pix_fmt": "rgb"}), Buffer(PIXELS.copy(), {"pix_fmt": "bgr"})
    for calls in ([[first], [second]], [[first, second]]):
        assert given(PIXELS.copy(), *calls) == {"pix_fmt": "rgb hwc or bgr hwc"}


def test_an_image_without_its_data_is_inherited_from_as_with_it():
    image = Buffer(PIXELS, {"pix_fmt": "rgb", "path": "a"})
    kept = strip_data(image)
    assert kept.data is None
    assert result(PIXELS.copy(), kept).meta == {"pix_fmt": "rgb", "path": "a"}
    assert result(PIXELS.tobytes(), kept).get("width") == 8
    assert image.meta == {"pix_fmt": "rgb", "path": "a"}
