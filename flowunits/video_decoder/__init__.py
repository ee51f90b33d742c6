"""``video_decoder``: decodes the frames of a video."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Stream, option


@dataclass(frozen=True)
class VideoDecoderOptions:
    """The options of ``video_decoder``."""

    pix_fmt: Literal["bgr", "rgb", "gray", "nv12", "bgrp", "rgbp"] = option(
        "bgr", help="The pixel format of the frames; bgrp and rgbp are planar."
    )
    image_width: int = option(
        0,
        help="The width of the frames, to which they are scaled while their colours are converted. "
        "0: in the ratio of image_height, or the video's own.",
        aliases=("width",),
        minimum=0,
    )
    image_height: int = option(
        0,
        help="The height of the frames; 0: in the ratio of image_width, or the video's own.",
        aliases=("height",),
        minimum=0,
    )
    every: int = option(
        1,
        help="Emit only every n-th frame. The others are not converted, and not decoded if no "
        "frame of the codec refers to another (MJPEG).",
        minimum=1,
    )
    references_only: bool = option(
        False, help="Decode only frames to which others refer: without most of the B-frames."
    )
    keyframes_only: bool = option(False, help="Decode only key frames.")
    strict: bool = option(
        True,
        help="A damaged packet or frame becomes an error at its place. The frames up to the next "
        "key frame depend on it and are left out. If false, the decoder repairs damage as far as "
        "it can. Only an undecodable packet is then an error.",
    )
    codec_threads: int = option(
        1,
        help="The threads that decode one video; 0: one thread per processor. More than one need "
        "strict=false, because decoders hide damage then. Each of them delays the frames by one "
        "frame. Several videos are always decoded by several threads.",
        minimum=0,
        maximum=64,
    )
    max_pixels: int = option(
        40_000_000, help="The most pixels (width x height) of a frame.", minimum=1
    )

    def __post_init__(self) -> None:
        """Checks that a strict decoder has one thread.

        Raises:
            ValueError: ``strict`` with several threads.
        """
        if self.strict and self.codec_threads != 1:
            raise ValueError(
                f"codec_threads={self.codec_threads} needs strict=false; got strict=true. Decoders "
                "with several threads hide damage"
            )


SPEC = FlowUnitSpec(
    name="video_decoder",
    devices={"cpu": "flowunits.video_decoder.cpu:VideoDecoder"},
    inputs=(Port("in_video_packet", "packets from video_demuxer, in decoding order"),),
    outputs=(
        Port(
            "out_video_frame",
            "uint8, by default (H, W, 3) BGR, in display order. The meta are those of an image, "
            "index (from 0), timestamp (seconds), rate_num, rate_den, rotate_angle, duration and "
            "source_url. A turn by rotate_angle, in degrees clockwise, makes the frame upright. "
            "The duration is that of the video, in seconds",
            dtype="uint8",
        ),
    ),
    options=VideoDecoderOptions,
    kind=Stream(),
    batch_size=8,
    hands_over_arrays=True,
    description="Decodes the packets of videos into frames.",
    group="Video",
    requires={"av": "video"},
    refuses_with=ValueError,
)
