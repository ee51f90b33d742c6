import contextlib
import io
import re
import struct
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from flowunits.image_decoder import SPEC
from flowunits.image_decoder.encoded import MOST_BYTES
from flowunits.image_decoder.header import read_header
from modelflow import Buffer, ConfigError
from modelflow.testing import run_unit


def decode(*items, **options):
    return run_unit(SPEC, {"in_encoded_image": items}, **options)["out_image"]


def pixels_of(data, **options):
    (buffer,) = decode(data, **options)
    assert not buffer.has_error(), buffer.get_error_msg()
    return buffer.data


def error_of(data, **options):
    (buffer,) = decode(data, **options)
    assert buffer.has_error()
    return buffer.get_error_msg()


def opencv(data, pix_fmt="bgr", flags=0):
    flags |= cv2.IMREAD_GRAYSCALE if pix_fmt == "gray" else cv2.IMREAD_COLOR
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    assert pixels is not None
    if pix_fmt == "rgb":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def with_orientation(jpeg, orientation, order="<"):
    mark = b"II" if order == "<" else b"MM"
    tiff = mark + struct.pack(order + "HI", 42, 8)
    tiff += struct.pack(order + "HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


@pytest.mark.parametrize("pix_fmt", ["bgr", "rgb", "gray"])
@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("source", ["colour", "gray"])
def test_every_format_decodes_to_the_pixels_of_opencv(photo, encode, image_format, pix_fmt, source):
    data = encode(photo if source == "colour" else photo[..., 1], image_format)
    (buffer,) = decode(data, pix_fmt=pix_fmt)
    np.testing.assert_array_equal(buffer.data, opencv(data, pix_fmt))
    assert buffer.meta == {"pix_fmt": pix_fmt, "layout": "hwc"}
    assert buffer.sizes() == {
        "width": 319,
        "height": 201,
        "width_stride": 319 * (1 if pix_fmt == "gray" else 3),
        "height_stride": 201,
        "channel": 1 if pix_fmt == "gray" else 3,
    }


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (16, 17), (201, 319)])
def test_jpeg_of_every_sampling_and_odd_size_is_bit_equal(
    photo, encode, size, subsampling, progressive
):
    crop = photo[: size[0], : size[1]]
    data = encode(crop, subsampling=subsampling, progressive=progressive, quality=80)
    for pix_fmt in ("bgr", "gray"):
        np.testing.assert_array_equal(pixels_of(data, pix_fmt=pix_fmt), opencv(data, pix_fmt))


@pytest.mark.parametrize("factor", ["411", "420", "422", "440", "444"])
def test_jpeg_samplings_of_opencv_are_bit_equal(photo, factor):
    name = f"IMWRITE_JPEG_SAMPLING_FACTOR_{factor}"
    data = cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, getattr(cv2, name)])[
        1
    ].tobytes()
    assert read_header(memoryview(data)).is_plain_jpeg
    np.testing.assert_array_equal(pixels_of(data), opencv(data))


def test_cmyk_jpeg_goes_to_opencv(photo, encode):
    data = encode(photo, mode="CMYK")
    assert not read_header(memoryview(data)).is_plain_jpeg
    np.testing.assert_array_equal(pixels_of(data), opencv(data))


def test_jpeg_of_an_unusual_sampling_goes_to_opencv(photo, encode):
    data = bytearray(encode(photo[:64, :64], subsampling=2))
    frame = data.index(b"\xff\xc0")
    assert data[frame + 11] == 0x22
    data[frame + 11] = 0x41
    data[frame + 14] = 0x21  # chroma of (2, 1), which libjpeg-turbo's own interface does not know
    assert not read_header(memoryview(bytes(data))).is_plain_jpeg


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_obeyed_as_opencv_does(photo, encode, orientation, order):
    data = with_orientation(encode(photo), orientation, order)
    (buffer,) = decode(data)
    np.testing.assert_array_equal(buffer.data, opencv(data))
    assert (buffer.get("height"), buffer.get("width")) == buffer.data.shape[:2]
    np.testing.assert_array_equal(
        pixels_of(data, ignore_orientation=True),
        opencv(data, flags=cv2.IMREAD_IGNORE_ORIENTATION),
    )


def test_broken_exif_does_not_matter(photo, encode):
    whole = with_orientation(encode(photo), 6)
    for at in range(6, 60, 7):
        data = bytearray(whole)
        data[at] ^= 0xFF
        (buffer,) = decode(bytes(data))
        assert buffer.has_error() or buffer.data.shape in ((201, 319, 3), (319, 201, 3))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, "array"])
def test_every_kind_of_bytes_is_taken(photo, encode, kind):
    data = encode(photo)
    given = np.frombuffer(data, np.uint8) if kind == "array" else kind(data)
    np.testing.assert_array_equal(pixels_of(given), opencv(data))


def test_memory_is_used_again_once_nobody_holds_the_pixels(photo, encode):
    data = encode(photo)

    def address():
        return pixels_of(data).__array_interface__["data"][0]

    first = address()
    assert address() == first


def test_nv12_and_planar_formats(photo, encode):
    data = encode(photo[:200, :318])
    planar = decode(data, pix_fmt="rgbp")[0]
    np.testing.assert_array_equal(planar.data, opencv(data, "rgb").transpose(2, 0, 1))
    assert (planar.get("layout"), planar.get("pix_fmt")) == ("chw", "rgbp")
    nv12 = decode(data, pix_fmt="nv12")[0]
    assert nv12.data.shape == (300, 318)
    assert (nv12.get("width"), nv12.get("height"), nv12.get("pix_fmt")) == (318, 200, "nv12")
    back = cv2.cvtColor(nv12.data, cv2.COLOR_YUV2BGR_NV12).astype(int)
    assert np.abs(back - opencv(data)).mean() < 6
    assert "even width and height" in error_of(encode(photo), pix_fmt="nv12")


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        ((40, 25), (40, 26)),
        ((41, 25), (80, 51)),
        ((159, 101), (160, 101)),
        ((160, 102), (319, 201)),
        ((1, 1), (40, 26)),
    ],
)
def test_scaled_decode_never_goes_below_the_least_size(photo, encode, least, expected):
    data = encode(photo)
    options = {"scaled_decode": True, "min_width": least[0], "min_height": least[1]}
    (buffer,) = decode(data, **options)
    assert buffer.data.shape[1::-1] == expected == (buffer.get("width"), buffer.get("height"))
    turned = decode(with_orientation(data, 6), **options)[0]
    width, height = turned.get("width"), turned.get("height")
    assert width >= least[0]
    assert height >= least[1]


def test_scaled_decode_gives_the_pixels_of_opencv(photo, encode):
    for data in (encode(photo), encode(photo, mode="CMYK")):
        pixels = pixels_of(data, scaled_decode=True, min_width=100)
        expected = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_REDUCED_COLOR_2)
        assert pixels.shape == (101, 160, 3)
        np.testing.assert_array_equal(pixels, expected)


def test_scaled_decode_needs_a_size():
    with pytest.raises(ConfigError, match="min_width or min_height"):
        SPEC.configure({"scaled_decode": True})


def test_an_empty_payload_is_an_error_of_its_buffer_alone(photo, encode):
    good = encode(photo)
    first, empty, last = decode(good, b"", good)
    assert "image_decoder: got 0 bytes; expected an encoded image" in empty.get_error_msg()
    np.testing.assert_array_equal(first.data, opencv(good))
    np.testing.assert_array_equal(last.data, opencv(good))


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_truncated_data_is_an_error(photo, encode, image_format):
    data = encode(photo, image_format)
    for end in (*range(1, 40), len(data) // 3, len(data) - len(data) // 20):
        assert "image_decoder: got" in error_of(data[:end]), end


def ends_of_scans(jpeg):
    """Returns the positions at which a scan ends and the next scan begins with its tables."""
    return [m.start() for m in re.finditer(rb"\xff(\xc4..|\xda..|\xd9)", jpeg, re.DOTALL)]


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("source", ["colour", "gray", "cmyk"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_that_lacks_its_end_marker_alone_has_all_its_pixels(
    photo, source, progressive, missing
):
    image = Image.fromarray(photo if source != "gray" else photo[..., 1])
    file = io.BytesIO()
    if source == "cmyk":
        image = image.convert("CMYK")
    image.save(file, "JPEG", progressive=progressive)
    data = file.getvalue()
    np.testing.assert_array_equal(pixels_of(data[:-missing]), pixels_of(data))
    assert "image_decoder: got" in error_of(data[: -missing - 40])


def test_a_progressive_jpeg_without_its_last_scans_is_an_error(photo, encode):
    data = encode(photo, progressive=True)
    ends = [end for end in ends_of_scans(data) if end > len(data) // 10]
    assert len(ends) > 5
    for end in ends[:-1]:
        assert "image_decoder: got" in error_of(data[:end])
    np.testing.assert_array_equal(pixels_of(data[: ends[-1]]), pixels_of(data))


def test_damage_in_a_jpeg_of_four_channels_is_an_error_unless_told_otherwise(photo):
    file = io.BytesIO()
    Image.fromarray(photo).convert("CMYK").save(file, "JPEG")
    data = file.getvalue()
    damaged = data[: len(data) // 2] + b"\xff\xd9"
    assert "Corrupt JPEG data" in error_of(damaged)
    assert pixels_of(damaged, strict=False).shape == (201, 319, 3)


@pytest.mark.parametrize(
    ("image_format", "told"),
    [("GIF", "a gif image"), ("JPEG2000", "a jpeg2000 image"), ("AVIF", "a avif image")],
)
def test_what_needs_pillow_says_so_where_it_is_not_installed(
    photo, encode, monkeypatch, image_format, told
):
    data = encode(photo, image_format)
    assert pixels_of(data).shape == (201, 319, 3)
    monkeypatch.setitem(sys.modules, "PIL", None)
    message = error_of(data)
    assert f"image_decoder: got {told} in {len(data)} bytes; {told} that OpenCV does not" in message
    assert "pip install 'modelflow-graph[pillow]'" in message


def test_a_bmp_that_opencv_reads_wrong_is_read_by_pillow_or_refused(monkeypatch):
    # Run lengths (RLE8) of 4 x 2: the second run goes past the end of the row.
    palette = bytes(range(256)) * 4
    rows = b"\x02\x01\x09\x02\x00\x00" + b"\x04\x03\x00\x01"
    header = struct.pack("<IiiHHIIiiII", 40, 4, 2, 1, 8, 1, len(rows), 0, 0, 256, 0)
    size = 14 + len(header) + len(palette)
    data = b"BM" + struct.pack("<IHHI", size + len(rows), 0, 0, size) + header + palette + rows
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(pixels_of(data, pix_fmt="rgb"), expected)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "a bmp image that OpenCV does not read needs the package 'pillow'" in error_of(data)


def test_damaged_jpeg_is_an_error_unless_told_otherwise(photo, encode):
    whole = encode(photo)
    data = whole[: len(whole) // 2] + b"\xff\xd9"
    message = error_of(data)
    assert "319 x 201" in message
    assert "Corrupt JPEG data" in message
    assert pixels_of(data, strict=False).shape == (201, 319, 3)


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_the_header_is_read_and_max_pixels_holds_before_decoding(photo, encode, image_format):
    data = encode(photo, image_format)
    header = read_header(memoryview(data))
    assert (header.width, header.height, header.format) == (319, 201, image_format.lower())
    assert pixels_of(data, max_pixels=319 * 201).shape == (201, 319, 3)
    message = error_of(data, max_pixels=319 * 201 - 1)
    assert "319 x 201 = 64119 pixels; expected 1 to 64118" in message


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("alpha", [False, True])
def test_the_header_of_every_webp_form_is_read(photo, encode, lossless, alpha):
    mode = "RGBA" if alpha else None
    data = encode(photo, "WEBP", mode, lossless=lossless, exact=True)
    header = read_header(memoryview(data))
    assert (header.width, header.height) == (319, 201)
    np.testing.assert_array_equal(pixels_of(data), opencv(data))


def test_a_bomb_is_refused_by_its_header(photo, encode):
    png = bytearray(encode(photo, "PNG"))
    struct.pack_into(">II", png, 16, 60_000, 60_000)
    assert "3600000000 pixels" in error_of(bytes(png))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hello, this is text", "begin with b'hello, t'; expected JPEG, PNG, WebP, BMP or TIFF"),
        (b"hello, this\nis text\n", "this is text; expected the bytes of an image file"),
        (np.array([b"II"], object), "got an object array of shape (1,)"),
        ("text", "got str; expected an encoded image"),
        (None, "got NoneType; expected an encoded image"),
        (np.zeros((3, 4), np.uint8), "got a uint8 array of shape (3, 4)"),
        (np.zeros(4, np.float32), "got a float32 array"),
        (Buffer(b"\xff\xd8\xff\xd9\0\0"), "without a frame"),
    ],
)
def test_what_is_no_image_is_named(data, expected):
    assert expected in error_of(data)


def test_an_image_of_floats_is_named_without_an_address_in_memory():
    data = cv2.imencode(".tiff", np.zeros((4, 4, 3), np.float32))[1].tobytes()
    assert "8 or 16 bits for each channel" in error_of(data)


def test_random_bytes_behind_each_magic_never_escape_as_another_error(encode, photo):
    rng = np.random.default_rng(5)
    for image_format in ("JPEG", "PNG", "WEBP", "BMP", "TIFF"):
        data = encode(photo[:20, :20], image_format)
        for _ in range(60):
            broken = bytearray(data)
            for at in rng.integers(2, min(len(data), 120), 4):
                broken[at] = rng.integers(0, 256)
            with contextlib.suppress(ValueError):
                read_header(memoryview(bytes(broken)))


def test_an_image_whose_pixels_cannot_stand_in_its_bytes_is_refused_before_memory_is_taken(
    photo, encode, monkeypatch
):
    monkeypatch.setattr("flowunits.image_decoder.cpu.empty_image", None)
    jpeg = bytearray(encode(photo))
    at = jpeg.index(b"\xff\xc0")
    struct.pack_into(">HH", jpeg, at + 5, 6000, 6000)
    text = "got a jpeg image of 6000 x 6000 = 36000000 pixels in"
    message = error_of(bytes(jpeg[:60_000]))
    assert text in message
    assert "so many take 70312 bytes at least" in message


def test_a_png_whose_pixels_cannot_stand_in_its_bytes_is_refused(photo, encode):
    png = bytearray(encode(photo[:100, :100], "PNG"))
    struct.pack_into(">II", png, 16, 6000, 6000)
    assert "take 103851 bytes at least" in error_of(bytes(png))


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("settings", [{}, {"progressive": True}, {"optimize": True}])
def test_the_emptiest_picture_is_not_taken_for_a_bomb(encode, image_format, settings):
    for mode in ("L", "RGB", "1" if image_format == "PNG" else "CMYK"):
        blank = np.full((3000, 3000, 3), 255, np.uint8)
        data = encode(blank, image_format, mode, **settings)
        assert pixels_of(data, pix_fmt="gray").shape == (3000, 3000, 1)


def test_the_pixels_of_a_batch_have_a_bound(photo, encode):
    data = encode(photo)
    first, second, third = decode(data, data, data, max_batch_pixels=2 * photo[..., 0].size)
    assert (first.has_error(), second.has_error()) == (False, False)
    assert "with the images before it in its batch 192357; expected" in third.get_error_msg()
    assert "set a smaller batch_size, or max_batch_pixels" in third.get_error_msg()


def test_a_kept_error_keeps_no_pixels(photo, encode):
    whole = encode(photo)
    damaged = whole[: len(whole) // 2] + b"\xff\xd9"
    (buffer,) = decode(damaged)
    frames = []
    error = buffer.error
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        error = error.__cause__
    kept = [value for frame in frames for value in frame.f_locals.values()]
    assert not any(isinstance(value, np.ndarray) and value.ndim == 3 for value in kept)


def test_a_file_is_read_by_its_path_or_where_it_stands(photo, encode, tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(encode(photo, "PNG"))
    with path.open("rb") as file:
        by_path, by_file = decode(path, file)
    np.testing.assert_array_equal(by_path.data, opencv(path.read_bytes()))
    np.testing.assert_array_equal(by_file.data, by_path.data)
    assert by_path.get("path") == str(path)
    np.testing.assert_array_equal(pixels_of(io.BytesIO(path.read_bytes())), by_path.data)


def test_a_file_that_cannot_be_read_is_an_error_of_its_item(tmp_path, photo, encode):
    (tmp_path / "a.txt").write_text("text")
    closed = io.BytesIO(b"a")
    closed.close()
    assert f"image_decoder: {tmp_path}/no.png: cannot be read: No such file" in error_of(
        tmp_path / "no.png"
    )
    assert f"image_decoder: {tmp_path}: cannot be read: Is a directory" in error_of(tmp_path)
    with (tmp_path / "a.txt").open() as file:
        assert "got text of an open file; expected an encoded image, of a file opened as 'rb'" in (
            error_of(file)
        )
    assert "got an open file that cannot be read: I/O operation on closed file" in error_of(closed)
    assert "got str; expected an encoded image as bytes; of a file pathlib.Path('a.png')" in (
        error_of("a.png")
    )


def test_a_file_larger_than_any_image_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert f"expected a file of at most {MOST_BYTES}" in error_of(tmp_path / "large")
    assert "got 0 bytes; expected a file of at most" in error_of(Path("/dev/zero"))


@pytest.mark.parametrize("pix_fmt", ["bgr", "gray"])
def test_what_a_damaged_image_does_not_give_is_black_and_of_no_earlier_image(photo, pix_fmt):
    found, encoded = cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    assert found
    jpeg = encoded.tobytes()
    assert np.any(pixels_of(jpeg, pix_fmt=pix_fmt))  # its memory is used again for the same size
    second = jpeg.index(b"\xff\xda", jpeg.index(b"\xff\xda") + 2)  # the second scan's start
    # A warning before the error: libjpeg-turbo then reports both as warnings.
    damaged = jpeg[:second] + bytes(8) + b"\xff\x56" + jpeg[second + 2 :]
    assert "Unsupported marker type 0x56" in error_of(damaged, pix_fmt=pix_fmt)
    assert not np.any(pixels_of(damaged, pix_fmt=pix_fmt, strict=False))


def test_fill_bytes_without_end_are_refused_in_linear_time(encode, photo):
    data = encode(photo[:16, :16])
    scan = data.index(b"\xff\xda")
    length = int.from_bytes(data[scan + 2 : scan + 4], "big")
    assert "does not decode" in error_of(data[: scan + 2 + length] + b"\xff" * 2_000_000 + b"\0")


def test_a_png_whose_chunk_claims_more_than_there_is_takes_no_memory_for_it(encode, photo):
    data = bytearray(encode(photo[:16, :16], "PNG"))
    at = data.index(b"IDAT")
    data[at - 4 : at] = (0xF0000000).to_bytes(4, "big")
    assert "is cut off: the chunk at" in error_of(bytes(data))


def test_the_first_of_several_sizes_of_a_tiff_counts(encode, photo):
    small, large = (struct.pack("<HHII", 0x0100, 4, 1, width) for width in (10, 20_000))
    tags = large + small + struct.pack("<HHII", 0x0101, 4, 1, 20_000)
    tiff = b"II*\0" + struct.pack("<IH", 8, 3) + tags + bytes(4)
    assert "20000 x 20000 = 400000000 pixels; expected 1 to 40000000" in error_of(tiff)


def test_the_first_of_several_orientations_counts(encode, photo):
    data = encode(photo)
    # the tag that was written last comes first
    both = with_orientation(with_orientation(data, 1), 6)
    np.testing.assert_array_equal(pixels_of(both), opencv(both))
    both = with_orientation(with_orientation(data, 6), 1)
    np.testing.assert_array_equal(pixels_of(both), opencv(both))


def test_a_jpeg_of_very_many_scans_is_refused(encode, photo):
    data = encode(photo[:16, :16], progressive=True)
    at = data.rindex(b"\xff\xda")
    many = data[:at] + data[at:-2] * 200 + data[-2:]
    assert "scans; expected at most 100" in error_of(many)


def test_an_icon_is_measured_before_it_is_decoded(encode):
    png = encode(np.zeros((8000, 8000), np.uint8), "PNG", mode="1")
    entry = struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 1, len(png), 22)
    message = error_of(b"\0\0\1\0\1\0" + entry + png)
    assert "got a ico image of 8000 x 8000 = 64000000 pixels" in message


@pytest.mark.filterwarnings("ignore::UserWarning")  # a warning of Pillow about broken tags
@pytest.mark.parametrize("image_format", ["AVIF", "TIFF", "WEBP", "GIF", "JPEG2000", "ICO"])
def test_whatever_a_broken_image_raises_its_sender_is_at_fault(encode, photo, image_format):
    data = encode(photo[:16, :16], image_format)
    random = np.random.default_rng(0)
    for _ in range(40):
        broken = bytearray(data)
        for at in random.integers(4, len(data), 5):
            broken[at] = random.integers(256)
        (found,) = decode(bytes(broken))
        assert found.error is None or found.error.is_refusal, found.get_error_msg()
