"""``video_demuxer``: the packets of a video.

A packet carries, as values that cross to other processes, all that FFmpeg's demuxer says of it
(`modelflow.video.read_packet`), and its track all that the container says to a decoder
(`modelflow.video.Track`). A decoder that is built of them gives the frames, pixels and times of
PyAV's own decoding of the container; what an edit list cuts away is decoded and not given.
"""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, Stream, option
from modelflow.video import RetryOptions


@dataclass(frozen=True)
class VideoDemuxerOptions(RetryOptions):
    """The options of ``video_demuxer``; the meta of the address, if any, go before ``retry_*``."""

    max_frames: int = option(
        0,
        help="Most packets to give of each video, but those whose frame is not shown; 0: all.",
        minimum=0,
    )
    key_frame_only: bool = option(False, help="Give the packets of key frames alone.")
    open_timeout_ms: int = option(
        5000, help="Longest wait for the network when opening.", minimum=1, maximum=600_000
    )
    read_timeout_ms: int = option(
        5000, help="Longest wait for the network when reading.", minimum=1, maximum=600_000
    )


SPEC = FlowUnitSpec(
    name="video_demuxer",
    devices={"cpu": "flowunits.video_demuxer.cpu:VideoDemuxer"},
    inputs=(
        Port(
            "in_video_url",
            "the address of a video as text: a file, rtsp://, http://, ...; where no text is sent, "
            "the meta source_url",
        ),
    ),
    outputs=(
        Port(
            "out_video_packet",
            "bytes of an encoded packet, with the meta track (modelflow.video.Track), pts, dts "
            "and duration (in the track's time base), is_keyframe, is_discard (its frame is not "
            "shown), is_corrupt, side_data (names and bytes), index (from 0) and source_url (what "
            "was opened)",
        ),
    ),
    options=VideoDemuxerOptions,
    kind=Stream(),
    description="Reads the packets of videos: files, and streams, which are opened again.",
    group="Video",
    requires={"av": "video"},
    refuses_with=ValueError,
)
