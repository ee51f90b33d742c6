"""``video_decoder``: the frames of a video."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Stream, option


@dataclass(frozen=True)
class VideoDecoderOptions:
    """The options of ``video_decoder``."""

    pix_fmt: Literal["bgr", "rgb", "gray", "nv12", "bgrp", "rgbp"] = option(
        "bgr", help="The pixel format of the frames; bgrp and rgbp are planar."
    )
    keyframes_only: bool = option(False, help="Decode key frames alone.")
    strict: bool = option(
        True,
        help="A damaged packet or frame is an error in its place, and the frames up to the next "
        "key frame, which are built on it, are left out; false: the decoder makes of it what it "
        "can, and only a packet of which nothing can be made is an error.",
    )
    codec_threads: int = option(
        1,
        help="Threads that decode one video; 0: a thread a processor. Several videos are decoded "
        "by several threads anyway.",
        minimum=0,
        maximum=64,
    )
    max_pixels: int = option(
        40_000_000, help="The most pixels (width x height) of a frame.", minimum=1
    )


SPEC = FlowUnitSpec(
    name="video_decoder",
    devices={"cpu": "flowunits.video_decoder.cpu:VideoDecoder"},
    inputs=(Port("in_video_packet", "packets as video_demuxer gives them, in decoding order"),),
    outputs=(
        Port(
            "out_video_frame",
            "uint8 (H, W, 3) BGR unless pix_fmt says otherwise, in the order of display, with the "
            "meta of an image, index (from 0), timestamp (seconds), rate_num, rate_den, "
            "rotate_angle (clockwise degrees to turn it upright), duration (of the video, seconds) "
            "and source_url",
            dtype="uint8",
        ),
    ),
    options=VideoDecoderOptions,
    kind=Stream(),
    batch_size=8,
    description="Decodes the packets of videos into frames.",
    group="Video",
    requires={"av": "video"},
    refuses_with=ValueError,
)
