"""Tests of the options that save a decoder work: smaller frames, fewer frames."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from flowunits.video_decoder import SPEC as DECODER
from flowunits.video_decoder import VideoDecoderOptions
from flowunits.video_decoder.decoding import Decoding
from flowunits.video_demuxer import SPEC as DEMUXER
from modelflow import GraphError
from modelflow.image import convert_color, read_image
from modelflow.testing import run_unit
from tests.flowunits.videos import RATE, WIDTH, read, write_video


@pytest.mark.parametrize("codec", ["libx264", "mjpeg"])
@pytest.mark.parametrize("pix_fmt", ["bgr", "rgb", "gray", "nv12", "bgrp"])
@pytest.mark.parametrize(
    ("options", "size"),
    [
        ("image_width=80, image_height=40", (80, 40)),
        ("image_width=40", (40, 30)),
        ("image_height=240", (320, 240)),
    ],
)
def test_frames_have_the_size_that_is_asked_for(tmp_path, codec, pix_fmt, options, size):
    path = write_video(tmp_path / "v.mkv", 5, codec, pix_fmt="yuvj420p")
    frames, errors, _ = read(path, decode=f", pix_fmt={pix_fmt}, {options}")
    assert (len(frames), errors) == (5, [])
    whole, _, _ = read(path, decode=", pix_fmt=gray")
    for frame, other in zip(frames, whole, strict=True):
        image = read_image(frame, allow_nv12=True)
        assert (image.width, image.height) == size
        way = cv2.INTER_AREA if size[0] < WIDTH else cv2.INTER_LINEAR
        right = cv2.resize(other.data.squeeze(), size, interpolation=way)
        found = convert_color(image, "gray").data.squeeze()
        assert np.abs(found.astype(int) - right).mean() < 3


@pytest.mark.parametrize("codec", ["libx264", "mjpeg", "mpeg4"])
def test_every_nth_frame_is_the_same_as_in_all_frames(tmp_path, codec):
    pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    path = write_video(tmp_path / "v.mkv", 20, codec, pix_fmt=pix_fmt)
    whole, _, _ = read(path)
    frames, errors, _ = read(path, decode=", every=3")
    assert errors == []
    assert [frame.get("index") for frame in frames] == list(range(7))
    for frame, other in zip(frames, whole[::3], strict=True):
        np.testing.assert_array_equal(frame.data, other.data)
        assert frame.get("timestamp") == other.get("timestamp")
        assert frame.get("rate_num") * 3 / frame.get("rate_den") == RATE


def test_frames_without_the_others_that_nothing_refers_to_are_the_same(tmp_path):
    path = write_video(tmp_path / "v.mkv", 40)
    whole, _, _ = read(path)
    frames, errors, _ = read(path, decode=", references_only=true")
    assert errors == []
    assert 5 < len(frames) < 30
    right = {frame.get("timestamp"): frame.data for frame in whole}
    for frame in frames:
        np.testing.assert_array_equal(frame.data, right[frame.get("timestamp")])


def decode_as(path, width, height, **options):
    """Returns the frames of a video whose container tells another size."""
    packets = run_unit(DEMUXER, {"in_video_url": [str(path)]})["out_video_packet"]
    for packet in packets:
        packet.set("track", replace(packet.get("track"), width=width, height=height))
    return run_unit(DECODER, {"in_video_packet": packets}, **options)["out_video_frame"]


@pytest.mark.parametrize("options", [{"image_width": 80}, {"image_height": 60}], ids=str)
def test_a_video_whose_container_tells_no_size_is_scaled(tmp_path, options):
    frames = decode_as(write_video(tmp_path / "v.mkv", 2, "mpeg4"), 0, 0, **options)
    assert [frame.data.shape for frame in frames] == [(60, 80, 3)] * 2


def test_frames_of_another_size_than_the_container_tells_have_the_same_bound(tmp_path):
    path = write_video(tmp_path / "v.mkv", 2, "mpeg4")
    frames = decode_as(path, 160, 16, image_width=400, max_pixels=100000)
    assert "got frames of 400 x 300 = 120000 pixels" in frames[0].get_error_msg()


def test_a_size_with_too_many_pixels_is_an_error(tmp_path):
    path = write_video(tmp_path / "v.mkv", 2)
    frames, errors, _ = read(path, decode=", image_width=400, max_pixels=100000")
    assert not frames
    assert "got frames of 400 x 300 = 120000 pixels; expected at most 100000" in errors[0]


@pytest.mark.parametrize("codec", ["libx264", "mjpeg", "mpeg4"])
def test_several_threads_return_the_frames_of_one(tmp_path, codec):
    pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    path = write_video(tmp_path / "v.mkv", 20, codec, pix_fmt=pix_fmt)
    whole, _, _ = read(path)
    frames, errors, _ = read(path, decode=", codec_threads=3, strict=false")
    assert errors == []
    for frame, other in zip(frames, whole, strict=True):
        np.testing.assert_array_equal(frame.data, other.data)
        assert frame.meta == other.meta


def test_several_threads_decode_frames_of_one_slice_at_once(tmp_path):
    path = write_video(tmp_path / "v.mkv", 5, "mpeg4")
    (packet, *_) = run_unit(DEMUXER, {"in_video_url": [str(path)]})["out_video_packet"]
    options = VideoDecoderOptions(codec_threads=3, strict=False)
    decoding = Decoding(packet.get("track"), options)
    # The decoder waits for packets of the other threads.
    assert decoding.decode(packet) == []
    assert len(decoding.flush()) == 1


def test_several_threads_would_hide_damage_and_are_refused_with_strict(tmp_path):
    path = write_video(tmp_path / "v.mkv", 2, "mpeg4")
    with pytest.raises(GraphError, match="codec_threads=0 needs strict=false; got strict=true"):
        read(path, decode=", codec_threads=0")
