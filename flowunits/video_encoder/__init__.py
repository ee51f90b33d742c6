"""``video_encoder``: encodes frames into a video."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Stream, option


@dataclass(frozen=True)
class VideoEncoderOptions:
    """The options of ``video_encoder``."""

    default_dest_url: str = option(
        help="The target: a file, with {stem} (of the source) and {repeat} replaced, or rtsp://, "
        "rtmp://, ... The key 'dest_url' of a session's context replaces this option. A relative "
        "path in a graph file is relative to that file.",
        is_path=True,
    )
    format: Literal["auto", "mp4", "flv", "mkv", "rtsp"] = option(
        "auto",
        help="The container. By default it follows from the ending of a file or the scheme of an "
        "address.",
    )
    encoder: str = option("mpeg4", help="FFmpeg's encoder: mpeg4, libx264, ...")
    bit_rate: int = option(3_200_000, help="Bits a second.", minimum=1000, maximum=1_000_000_000)


SPEC = FlowUnitSpec(
    name="video_encoder",
    devices={"cpu": "flowunits.video_encoder.cpu:VideoEncoder"},
    inputs=(
        Port(
            "in_video_frame",
            "uint8 (H, W, 3) or planar, bgr, rgb, gray or nv12, all of one size. The meta rate_num "
            "and rate_den are the frame rate (by default 25). The time of a frame is its meta "
            "timestamp (seconds) minus that of the first frame. A container without times, such as "
            "AVI, has a constant rate: each frame takes the nearest free place",
            dtype="uint8",
        ),
    ),
    options=VideoEncoderOptions,
    kind=Stream(),
    description="Encodes frames into a video. The video can be played even after an error.",
    group="Video",
    requires={"av": "video"},
    refuses_with=ValueError,
)
