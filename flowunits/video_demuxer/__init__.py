"""``video_demuxer``: reads the packets of a video.

A packet carries all fields that FFmpeg's demuxer sets (`modelflow.video.read_packet`). Its track
carries all parameters that the container has for a decoder (`modelflow.video.Track`). Both are
plain values that can be sent to other processes.

A decoder made from them returns the frames, pixels and times of PyAV's own decoding of the
container. Frames that an edit list cuts away are decoded, but not emitted.
"""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, Stream, option
from modelflow.video import RetryOptions


@dataclass(frozen=True)
class VideoDemuxerOptions(RetryOptions):
    """The options of ``video_demuxer``; meta of the address take precedence over ``retry_*``."""

    max_frames: int = option(
        0,
        help="The most packets to emit of each video, without packets whose frame is hidden; 0: "
        "all.",
        minimum=0,
    )
    key_frame_only: bool = option(False, help="Emit only the packets of key frames.")
    open_timeout_ms: int = option(
        5000,
        help="The most milliseconds to wait for the network when opening.",
        minimum=1,
        maximum=600_000,
    )
    read_timeout_ms: int = option(
        5000,
        help="The most milliseconds to wait for the network when reading.",
        minimum=1,
        maximum=600_000,
    )


SPEC = FlowUnitSpec(
    name="video_demuxer",
    devices={"cpu": "flowunits.video_demuxer.cpu:VideoDemuxer"},
    inputs=(
        Port(
            "in_video_url",
            "the address of a video as text: a file, rtsp://, http://, ... If the data is not "
            "text, the meta source_url is used",
        ),
    ),
    outputs=(
        Port(
            "out_video_packet",
            "bytes of an encoded packet. The meta are track (modelflow.video.Track), pts, dts and "
            "duration (in the track's time base), is_keyframe, is_discard, is_corrupt, side_data, "
            "index (from 0) and source_url. With is_discard the frame is not shown. The side_data "
            "are names and bytes. The source_url is the opened address",
        ),
    ),
    options=VideoDemuxerOptions,
    kind=Stream(),
    description="Reads the packets of video files and streams. Interrupted videos can be reopened.",
    group="Video",
    requires={"av": "video"},
    refuses_with=ValueError,
)
