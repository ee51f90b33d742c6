"""Packets of a video as buffers, which cross to other processes, and what they have in common.

Frames are those of PyAV's own decoding only if the decoder gets all of a packet: a palette and new
extradata are side data, and an edit list marks packets whose frames are decoded and not shown.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from modelflow.buffer import Buffer
from modelflow.video.address import load_av

# What a decoder takes from the container before the first packet, beside extradata and size.
_PARAMETERS = (
    "codec_tag",  # which of a codec's kinds: "uyvy" of rawvideo, "ULRG" of Ut Video
    "bits_per_coded_sample",
    "pix_fmt",
    "reorder_depth",
    "color_range",
    "color_primaries",
    "color_trc",
    "colorspace",
)


@dataclass(frozen=True, slots=True)
class Track:
    """A video track, as the meta ``track`` of its packets.

    Attributes:
        codec: FFmpeg's name of the decoder.
        extradata: What the decoder needs before the first packet; perhaps empty.
        width, height: In pixels.
        rate: Frames a second; of a variable rate, the least that has a place for each frame.
        time_base: The seconds that one step of ``pts`` and ``dts`` is.
        rotation: By how much a player turns the frames, clockwise in degrees: 0, 90, 180, 270.
        duration: In seconds; 0: unknown.
        source: Where it comes from, without a password.
        parameters: Names and values of what else a decoder takes from the container.
        opening: Counts the tracks of a stream, from 0: for each, a decoder begins.
    """

    codec: str
    extradata: bytes
    width: int
    height: int
    rate: Fraction
    time_base: Fraction
    rotation: int = 0
    duration: float = 0.0
    source: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    opening: int = 0

    @staticmethod
    def read_parameters(context: Any) -> tuple[tuple[str, Any], ...]:
        """Returns the ``parameters`` of a container's codec context."""
        found = ((name, getattr(context, name)) for name in _PARAMETERS)
        return tuple((name, value) for name, value in found if value is not None)

    def create_decoder(self) -> Any:
        """Returns a codec context that decodes as the container's own does; not yet open.

        Raises:
            ValueError: there is no such decoder.
            av.error.FFmpegError: the same.
        """
        codec = load_av().CodecContext.create(self.codec, "r")
        codec.extradata = self.extradata or None
        codec.width, codec.height = self.width, self.height
        for name, value in self.parameters:
            setattr(codec, name, value)
        return codec


def read_packet(packet: Any) -> Buffer:
    """Returns the bytes of PyAV's packet, and as meta what `build_packet` needs besides."""
    meta = {
        "pts": packet.pts,
        "dts": packet.dts,
        "duration": packet.duration,
        "is_keyframe": packet.is_keyframe,
        "is_discard": packet.is_discard,
        "is_corrupt": packet.is_corrupt,
        "side_data": tuple((part.data_type, bytes(part)) for part in packet.iter_sidedata()),
    }
    return Buffer(bytes(packet), meta)


def build_packet(buffer: Buffer, track: Track) -> Any:
    """Returns PyAV's packet; its frame's ``opaque`` is the buffer in a tuple (`copy_opaque`)."""
    av = load_av()
    # Not Packet(data), which lacks the zeros behind it that decoders read.
    packet = av.Packet(len(buffer.data))
    packet.update(buffer.data)
    packet.pts, packet.dts = buffer.get("pts"), buffer.get("dts")
    packet.duration = buffer.get("duration")
    packet.time_base = track.time_base
    packet.is_keyframe = bool(buffer.get("is_keyframe"))
    packet.is_corrupt = bool(buffer.get("is_corrupt"))
    for name, data in buffer.get("side_data") or ():
        kind = av.packet.packet_sidedata_type_from_literal(name)
        part = av.packet.PacketSideData(kind, len(data))
        part.update(data)
        part.to_packet(packet)
    # PyAV finds it by its id: a tuple of its own, as two decoders may read one buffer.
    packet.opaque = (buffer,)
    return packet
