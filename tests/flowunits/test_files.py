"""file_source and file_sink."""

import json
import os
from typing import Any

import cv2
import numpy as np
import pytest

from flowunits import file_sink, file_source
from modelflow import Buffer, ConfigError
from modelflow.image import Box
from modelflow.testing import run_unit
from tests.unit.contexts import source_context


def read(path, **options):
    return run_unit(file_source.SPEC, path=str(path), **options)["out_data"]


def names_of(buffers):
    return [os.path.basename(buffer.get("path")) for buffer in buffers]


@pytest.fixture
def folder(tmp_path):
    for name in (
        "img10.jpg",
        "img2.jpg",
        "img1.PNG",
        "note.txt",
        ".hidden.jpg",
        "b/img3.jpg",
        "b/c/img4.jpg",
    ):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "in"


def test_source_gives_a_file_with_its_path_and_index(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (buffer,) = read("b/img3.jpg")
    assert buffer.data == b"b/img3.jpg"
    assert buffer.meta == {"path": str(folder / "b" / "img3.jpg"), "index": 0}


def test_source_gives_a_folder_in_natural_order(folder):
    buffers = read(folder)
    assert names_of(buffers) == ["img1.PNG", "img2.jpg", "img10.jpg", "note.txt"]
    assert [buffer.get("index") for buffer in buffers] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.jpg", ["img2.jpg", "img10.jpg"]),
        ("**/*.jpg", ["img3.jpg", "img4.jpg", "img2.jpg", "img10.jpg"]),
        ("img[12].*", ["img1.PNG", "img2.jpg"]),
    ],
)
def test_source_gives_what_a_pattern_matches(folder, pattern, expected):
    found = names_of(read(f"{folder}/{pattern}"))
    assert sorted(found) == sorted(expected)
    if "**" not in pattern:
        assert found == expected


def test_source_takes_endings_in_any_case(folder):
    assert names_of(read(folder, extensions="png,.JPG")) == ["img1.PNG", "img2.jpg", "img10.jpg"]


def test_source_takes_a_name_with_the_characters_of_a_pattern(tmp_path):
    (tmp_path / "a[1].bin").write_bytes(b"x")
    assert names_of(read(tmp_path / "a[1].bin")) == ["a[1].bin"]


def test_source_repeats(folder):
    buffers = read(folder, repeat=3)
    assert names_of(buffers) == ["img1.PNG", "img2.jpg", "img10.jpg", "note.txt"] * 3
    assert [buffer.get("index") for buffer in buffers] == list(range(12))
    assert len(read(folder, repeat=-1, max_calls=5)) == 40
    with pytest.raises(ConfigError, match="repeat"):
        file_source.SPEC.configure({"path": "x", "repeat": 0})


def test_source_gives_a_few_files_a_call(tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.bin").write_bytes(b"x")
    unit = file_source.SPEC.create("cpu")
    unit.open(file_source.SPEC.configure({"path": str(tmp_path)}))
    state: dict[str, Any] = {}
    sizes = []
    while True:
        ctx = source_context({"out_data": []}, state)
        unit.process(ctx)
        sizes.append(len(ctx.outputs["out_data"]))
        if ctx.is_finished:
            break
    assert sizes == [8, 8, 4]


def test_source_without_files_names_its_pattern_at_open(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\*'.*matches no file"):
        read(tmp_path / "nothing*")
    with pytest.raises(FileNotFoundError, match="ends in png"):
        (tmp_path / "a.txt").write_bytes(b"")
        read(tmp_path, extensions="png")


def test_a_file_that_cannot_be_read_fails_alone(folder):
    unit = file_source.SPEC.create("cpu")
    unit.open(file_source.SPEC.configure({"path": str(folder)}))
    (folder / "img2.jpg").unlink()
    ctx = source_context({"out_data": []})
    unit.process(ctx)
    first, second, *rest = ctx.outputs["out_data"]
    assert isinstance(second, FileNotFoundError)
    assert names_of([first, *rest]) == ["img1.PNG", "img10.jpg", "note.txt"]
    assert ctx.is_finished


def test_a_file_over_max_bytes_fails_alone(folder):
    (folder / "img2.jpg").write_bytes(b"x" * 100)
    buffers = read(folder, max_bytes=99)
    assert [buffer.has_error() for buffer in buffers] == [False, True, False, False]
    assert "img2.jpg: got more than 99 bytes" in buffers[1].get_error_msg()


def write(template, *items, **options):
    return run_unit(file_sink.SPEC, {"in_data": items}, path=str(template), **options)["errors"]


def test_sink_writes_images_as_opencv_does(tmp_path, photo):
    rgb = Buffer(np.ascontiguousarray(photo[..., ::-1]), {"pix_fmt": "rgb"})
    for suffix, parameters in ((".jpg", [cv2.IMWRITE_JPEG_QUALITY, 40]), (".png", [])):
        assert write(tmp_path / f"out/{{index:03d}}{suffix}", photo, rgb, quality=40) == []
        expected = cv2.imencode(suffix, photo, parameters)[1].tobytes()
        for name in ("000", "001"):
            assert (tmp_path / "out" / f"{name}{suffix}").read_bytes() == expected


def test_sink_chooses_the_form_by_ending_or_data(tmp_path):
    array = np.arange(6.0).reshape(2, 3)
    boxes = [Box(1, 2, 3, 4, 0.5, 6, "cat")]
    assert write(tmp_path / "a.npy", array) == []
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)
    assert write(tmp_path / "a.json", {"boxes": boxes, "array": array}) == []
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "boxes": [{"x": 1, "y": 2, "w": 3, "h": 4, "score": 0.5, "class_id": 6, "label": "cat"}],
        "array": [[0, 1, 2], [3, 4, 5]],
    }
    assert write(tmp_path / "a.txt", "text") == []
    assert (tmp_path / "a.txt").read_text() == "text"
    for data, expected in ((b"\0\1", b"\0\1"), ("text", b"text"), ([1, 2], b"[1, 2]\n")):
        assert write(tmp_path / "plain", data) == []
        assert (tmp_path / "plain").read_bytes() == expected
    assert write(tmp_path / "raw.png", np.zeros(3, np.uint8), format="bytes") == []
    assert (tmp_path / "raw.png").read_bytes() == b"\0\0\0"
    assert write(tmp_path / "enc.jpg", b"encoded already") == []
    assert (tmp_path / "enc.jpg").read_bytes() == b"encoded already"


def test_sink_appends_lines_to_one_file(tmp_path):
    file = tmp_path / "deep/er/lines.jsonl"
    items = [
        Buffer({"a": 1}, {"path": "/x/1.jpg"}),
        Buffer([np.float32(0.5)], {"path": "/x/2.jpg"}),
    ]
    for _ in range(2):
        assert write(file, *items) == []
        assert file.read_text() == '{"a": 1}\n[0.5]\n'
    assert write(file, *items, append=True, meta="path") == []
    assert file.read_text().splitlines()[2:] == [
        '{"path": "/x/1.jpg", "data": {"a": 1}}',
        '{"path": "/x/2.jpg", "data": [0.5]}',
    ]


def test_sink_keeps_few_files_of_lines_open(tmp_path):
    items = [Buffer(n, {"name": f"f{n % 50}"}) for n in range(150)]
    assert write(tmp_path / "{name}.jsonl", *items) == []
    for n in range(50):
        lines = (tmp_path / f"f{n}.jsonl").read_text().split()
        assert lines == [str(n), str(n + 50), str(n + 100)]


def test_sink_fills_the_template_from_the_meta(tmp_path):
    meta = {"path": "/data/cat.7.jpg", "index": 7, "kind": "big", "score": 0.5}
    assert (
        write(tmp_path / "{kind}/{stem}-{name}-{index:04d}-{score:.2f}.bin", Buffer(b"x", meta))
        == []
    )
    assert (tmp_path / "big/cat.7-cat.7.jpg-0007-0.50.bin").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("../../evil", "evil"),
        ("/etc/passwd", "passwd"),
        ("..", "_"),
        ("a/..", "_"),
        ("..\\evil", "evil"),
        ("", "_"),
        ("x" * 5000, "x" * 200),
        ("a\0b", "ab"),
    ],
)
def test_a_meta_value_names_no_other_folder(tmp_path, value, expected):
    assert write(tmp_path / "out" / "{kind}", Buffer(b"x", {"kind": value})) == []
    assert [file.name for file in (tmp_path / "out").iterdir()] == [expected]
    assert os.listdir(tmp_path) == ["out"]


def test_a_bad_item_fails_alone_and_leaves_no_file(tmp_path):
    errors = write(tmp_path / "{index}.json", [1], object(), float("nan"), [2])
    assert len(errors) == 2
    assert "got object; expected data that JSON can hold" in errors[0].get_error_msg()
    assert sorted(os.listdir(tmp_path)) == ["0.json", "3.json"]


def test_a_failing_write_leaves_what_was_there(tmp_path):
    (tmp_path / "a.bin").mkdir()
    (error,) = write(tmp_path / "a.bin", b"x")
    assert error.has_error()
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize(
    ("item", "template", "options", "expected"),
    [
        (b"x", "{kind}", {}, "got no meta 'kind' to fill in {kind}"),
        (Buffer(b"x", {"kind": [1]}), "{kind}", {}, "got a list for {kind}"),
        (Buffer(b"x", {"kind": "a"}), "{kind:03d}", {}, "got 'a' for {kind:03d}"),
        (
            np.zeros((2, 2, 3), np.uint8),
            "a.xyz",
            {"format": "image"},
            "got the image encoding 'xyz'",
        ),
        (np.array([object()]), "a.npy", {}, "expected an array of numbers for npy"),
        ([[[]]], "a.npy", {}, "got list; expected an array"),
    ],
)
def test_sink_names_what_it_cannot_write(tmp_path, item, template, options, expected):
    (error,) = write(tmp_path / template, item, **options)
    assert expected in error.get_error_msg()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "template", ["", "{", "{a.b}", "{a!r}", "{a[0]}", "{}", "{index:99999999d}"]
)
def test_a_bad_template_fails_at_open(template):
    with pytest.raises(ValueError, match="option 'path'"):
        run_unit(file_sink.SPEC, {"in_data": [b"x"]}, path=template)


def test_files_are_written_with_the_usual_rights(tmp_path):
    write(tmp_path / "a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_path_that_is_written_twice_in_a_run_is_an_error(tmp_path):
    items = [Buffer(b"1", {"path": "a/x.jpg"}), Buffer(b"2", {"path": "b/x.jpg"})]
    (error,) = write(tmp_path / "{stem}.bin", *items)
    assert "x.bin was written in this run before; put {index}" in error.get_error_msg()
    assert (tmp_path / "x.bin").read_bytes() == b"1"
    assert write(tmp_path / "{stem}.bin", items[1]) == []  # another run
    assert write(tmp_path / "{stem}.bin", *items, overwrite=True) == []
    assert (tmp_path / "x.bin").read_bytes() == b"2"


def test_a_path_that_could_not_be_written_may_be_tried_again(tmp_path, monkeypatch):
    unit = file_sink.SPEC.create("cpu")
    unit.open(file_sink.SPEC.configure({"path": str(tmp_path / "a" / "x")}))
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(OSError, match="a"):
        unit._write(Buffer(b"x"))
    (tmp_path / "a").unlink()
    unit._write(Buffer(b"x"))
    assert (tmp_path / "a" / "x").read_bytes() == b"x"


def test_a_line_that_was_refused_is_not_written_later(tmp_path):
    resource = pytest.importorskip("resource")
    file = tmp_path / "lines.jsonl"
    unit = file_sink.SPEC.create("cpu")
    unit.open(file_sink.SPEC.configure({"path": str(file)}))
    unit._write(Buffer("first"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Like a full disk: half a line, then an error.
    resource.setrlimit(resource.RLIMIT_FSIZE, (12, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            unit._write(Buffer("second"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_text() == '"first"\n'
    unit._write(Buffer("third"))
    unit.close()
    assert file.read_text() == '"first"\n"third"\n'


def test_lines_are_not_written_through_a_link(tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "lines.jsonl").symlink_to(tmp_path / "elsewhere")
    (error,) = write(tmp_path / "lines.jsonl", {"a": 1})
    assert "Too many levels of symbolic links" in error.get_error_msg()
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_template_may_have_the_size_of_an_image(tmp_path):
    image = Buffer(np.zeros((6, 8, 3), np.uint8), {"pix_fmt": "bgr"})
    run_unit(file_sink.SPEC, {"in_data": [image]}, path=str(tmp_path / "{width}x{height}.png"))
    assert [path.name for path in tmp_path.iterdir()] == ["8x6.png"]
