"""Packets of a video as buffers for other processes, and the track that they share.

The decoder needs all of a packet to return the frames of PyAV's own decoding. Palettes and new
extradata are side data. An edit list marks packets whose frames are decoded, but not shown.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from modelflow.buffer import Buffer
from modelflow.video.address import load_av

# Parameters that a decoder takes from the container, in addition to extradata and size.
_PARAMETERS = (
    "codec_tag",  # the variant of a codec: "uyvy" of rawvideo, "ULRG" of Ut Video
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
        extradata: The bytes that the decoder needs before the first packet; may be empty.
        width, height: The size in pixels.
        rate: Frames a second. For a variable rate, the least rate with a place for each frame.
        time_base: The seconds of one step of ``pts`` and ``dts``.
        rotation: The clockwise degrees by which a player turns the frames: 0, 90, 180, 270.
        duration: The duration in seconds; 0 if unknown.
        source: The address, without a password.
        parameters: Names and values of the decoder's other parameters from the container.
        opening: The number of the track in its stream, from 0. Each track gets a new decoder.
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
        """Returns an unopened codec context that decodes as the container's own context does.

        Raises:
            ValueError: FFmpeg has no such decoder.
            av.error.FFmpegError: FFmpeg has no such decoder.
        """
        codec = load_av().CodecContext.create(self.codec, "r")
        codec.extradata = self.extradata or None
        codec.width, codec.height = self.width, self.height
        for name, value in self.parameters:
            setattr(codec, name, value)
        return codec


def read_packet(packet: Any) -> Buffer:
    """Returns the bytes of PyAV's packet, with the fields that `build_packet` needs as meta."""
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
    """Returns PyAV's packet. With `copy_opaque`, ``opaque`` of its frame is ``(buffer,)``."""
    av = load_av()
    # Not Packet(data), which lacks the zeros after the data that decoders read.
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
    # PyAV identifies the object by its id: a new tuple, because two decoders may read one buffer.
    packet.opaque = (buffer,)
    return packet
