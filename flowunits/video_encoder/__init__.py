"""``video_encoder``: frames to a video."""

from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, Stream, option


@dataclass(frozen=True)
class VideoEncoderOptions:
    """The options of ``video_encoder``."""

    default_dest_url: str = option(
        help="Where the video goes: a file, with {stem} (of the source) and {repeat} filled in, or "
        "rtsp://, rtmp://, ...; a session's own 'dest_url', in its context, goes before. In a "
        "graph file relative to that file.",
        is_path=True,
    )
    format: Literal["auto", "mp4", "flv", "mkv", "rtsp"] = option(
        "auto", help="The container; auto: by the ending of a file, or the scheme of an address."
    )
    encoder: str = option("mpeg4", help="FFmpeg's encoder: mpeg4, libx264, ...")
    bit_rate: int = option(3_200_000, help="Bits a second.", minimum=1000, maximum=1_000_000_000)


SPEC = FlowUnitSpec(
    name="video_encoder",
    devices={"cpu": "flowunits.video_encoder.cpu:VideoEncoder"},
    inputs=(
        Port(
            "in_video_frame",
            "uint8 (H, W, 3) or planar, bgr, rgb, gray or nv12, all of one size; with the meta "
            "rate_num and rate_den (else 25 frames a second) and timestamp (seconds): its distance "
            "from the first one is the frame's time. A container that keeps no times, as AVI, has "
            "the frames at that rate alone, each in the nearest place that is free",
            dtype="uint8",
        ),
    ),
    options=VideoEncoderOptions,
    kind=Stream(),
    description="Encodes frames into a video; one that can be played whatever went wrong before.",
    group="Video",
    requires={"av": "video"},
    refuses_with=ValueError,
)
