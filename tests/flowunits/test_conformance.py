"""Every built-in unit keeps the contract; one without a sample here fails."""

import base64
import json
from typing import Any

import cv2
import numpy as np
import pytest

import flowunits
from flowunits import video_demuxer
from modelflow import Buffer
from modelflow.image import Box
from modelflow.testing import check_flow_unit, run_unit

RNG = np.random.default_rng(7)


def pixels(height, width):
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


IMAGES_OF_ONE_SIZE = {"in_video_frame": [pixels(30, 44), pixels(30, 44)]}
IMAGES = {"in_image": [pixels(31, 45), pixels(20, 22), pixels(31, 45)]}
DATA = {"in_data": IMAGES["in_image"]}
BOXES = [[Box(1, 2, 8, 9, 0.9, 1), Box(2, 2, 8, 9, 0.8, 1)], [], [Box(0, 0, 5, 5, 0.5)]]
ENCODED = [cv2.imencode(end, pixels(19, 23))[1].tobytes() for end in (".jpg", ".png", ".webp")]


def packets(folder):
    """Returns two packets of a video, with which a decoder can begin."""
    from tests.flowunits.videos import write_video  # environments for image samples lack PyAV

    file = write_video(folder / "a.mp4", 2, codec="mpeg4")
    found = run_unit(video_demuxer.SPEC, {"in_video_url": [str(file)]})["out_video_packet"]
    return {"in_video_packet": found}


def addresses(folder):
    """Returns the addresses of two videos."""
    from tests.flowunits.videos import write_video

    files = [write_video(folder / name, 3, codec="mpeg4") for name in ("a.mp4", "b.mkv")]
    return {"in_video_url": [str(file) for file in files]}


# Unit -> (items of each input, or a function of a folder that makes them; options, with {folder}
# filled in).
SAMPLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "base64_decoder": (
        {
            "in_data": [
                json.dumps({"a": base64.b64encode(b"one").decode()}),
                json.dumps({"a": base64.b64encode(b"two").decode()}).encode(),
            ]
        },
        {"data_format": "json", "key": "a"},
    ),
    "boxes_to_original": (
        {
            "in_region": [
                Buffer(boxes, {"letterbox": (0, 5, 64, 54, 128, 108)})
                for boxes in (BOXES[0], [], np.array([[1, 2, 8, 9]]))
            ]
        },
        {},
    ),
    "buff_meta_mapping": (
        {"in_data": [Buffer(b"x", {"kind": 1}), Buffer(b"y", {"kind": 2})]},
        {"src_meta": "kind", "dest_meta": "name", "rules": "1=2,a=b"},
    ),
    "center_crop": (IMAGES, {"image_width": 15, "image_height": 12}),
    "color_convert": (IMAGES, {"out_pix_fmt": "gray"}),
    "crop": (
        {**IMAGES, "in_region": [(0, 0, 5, 6), {"x": 1, "y": 1, "w": 2, "h": 2}, Box(3, 4, 5, 6)]},
        {},
    ),
    "crop_boxes": ({**IMAGES, "in_region": BOXES}, {"margin": "0.2"}),
    "draw_bbox": ({**IMAGES, "in_region": BOXES}, {}),
    "file_sink": ({"in_data": [b"one", b"two"]}, {"path": "{folder}/{{index}}.bin"}),
    "file_source": (None, {"path": "{folder}"}),
    "gather": ({"in_data": [1, b"two", [3]]}, {"meta": "path"}),
    "httpserver_mjpeg": (IMAGES, {"endpoint": "http://127.0.0.1:0"}),
    "image_decoder": ({"in_encoded_image": ENCODED}, {}),
    "image_encoder": (IMAGES, {"format": "png"}),
    "image_preprocess": (IMAGES, {"output_layout": "chw", "mean": "1,2,3"}),
    "image_rotate": (IMAGES, {"rotate_angle": "90"}),
    "json_field": ({"in_data": ['{"a": [1, 2]}', b'{"a": [3]}', {"a": [4]}]}, {"field": "a"}),
    "json_object": ({"in_data1": ["x", "y"], "in_data2": [1, 2]}, {"fields": "a,b"}),
    "labels": ({"in_data": [1, [0, 1]]}, {"path": "{folder}/words.txt"}),
    "letterbox": (IMAGES, {"image_width": 40, "image_height": 32}),
    "mean": (DATA, {}),
    "nms": ({"in_region": BOXES}, {}),
    "normalize": (DATA, {"standard_deviation_inverse": "0.5,0.25,2", "mean": "1"}),
    "packed_planar_transpose": (IMAGES, {}),
    "pad_sequence": ({"in_data": [[1, 2], RNG.random((5, 2))]}, {"length": "4"}),
    "padding": (IMAGES, {"image_width": 40, "image_height": 40}),
    "resize": (IMAGES, {"width": 20, "height": "22"}),
    "text_vectorize": (
        {"in_data": ["one two", b"Two!"]},
        {"path": "{folder}/words.txt", "max_length": "3"},
    ),
    "top_k": ({"in_data": [RNG.random(9), RNG.random((1, 7))]}, {"k": "3", "softmax": "true"}),
    "data_source_generator": (None, {"url": "a.mp4"}),
    "data_source_parser": (
        {"in_data": [b'{"url": "a.mp4"}', '{"url": "rtsp://a/b", "url_type": "stream"}']},
        {},
    ),
    "output_broker": (
        {"in_output_info": [b"one", {"two": 2}]},
        {"brokers": '[{{"type": "file", "cfg": {{"path": "{folder}/{{index}}"}}}}]'},
    ),
    "video_decoder": (packets, {}),
    "video_demuxer": (addresses, {}),
    "video_encoder": (IMAGES_OF_ONE_SIZE, {"default_dest_url": "{folder}/v.mp4"}),
    "video_input": (None, {"source_url": "a.mp4", "repeat": 2}),
    "yolo_postprocess": (
        {
            f"in_feat{n}": [
                RNG.normal(0, 1, (21, 64 // s, 96 // s)).astype(np.float32) for _ in "12"
            ]
            for n, s in enumerate((8, 16, 32), 1)
        },
        {"input_width": 96, "input_height": 64, "classes": 2},
    ),
}


# They wait for clients, and end with the flow; test_http.py has tests with real clients.
OF_CLIENTS = ("httpserver_async", "httpserver_sync_receive", "httpserver_sync_reply")
CHECKED = [spec for spec in flowunits.SPECS if spec.name not in OF_CLIENTS]


@pytest.mark.parametrize("spec", CHECKED, ids=lambda spec: spec.name)
def test_every_unit_keeps_the_contract(spec, tmp_path):
    assert spec.name in SAMPLES, f"give a sample of the inputs of {spec.name!r} in this file"
    inputs, options = SAMPLES[spec.name]
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    options = {
        key: value.format(folder=tmp_path) if "{folder}" in str(value) else value
        for key, value in options.items()
    }
    if callable(inputs):
        inputs = inputs(tmp_path)
    check_flow_unit(spec, inputs, **options)


def test_the_samples_name_units_that_exist():
    assert sorted((*SAMPLES, *OF_CLIENTS)) == sorted(spec.name for spec in flowunits.SPECS)


def test_units_import_nothing_of_each_other():
    from pathlib import Path

    folder = Path(flowunits.__file__).parent
    for file in folder.glob("*/*.py"):
        for line in file.read_text().splitlines():
            if line.startswith(("import flowunits", "from flowunits")):
                assert line.split()[1].split(".")[1] == file.parent.name, f"{file}: {line}"
