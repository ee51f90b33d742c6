"""Packets as buffers, which cross to other processes: values for what PyAV's packet says.

Frames are those of PyAV's own decoding only if the decoder gets all of a packet: a palette and new
extradata are side data, and an edit list marks packets whose frames are decoded and not shown.
"""

from typing import Any

from modelflow.buffer import Buffer
from modelflow.video.library import load_av
from modelflow.video.track import Track


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
