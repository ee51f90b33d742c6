"""What all packets of one video have in common."""

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Track"]


@dataclass(frozen=True, slots=True)
class Track:
    """A video track, as the meta ``track`` of its packets.

    Attributes:
        codec: FFmpeg's name of the decoder.
        extradata: What the decoder needs before the first packet; perhaps empty.
        width, height: In pixels.
        rate: Frames a second, on average.
        time_base: The seconds that one step of ``pts`` and ``dts`` is.
        rotation: By how much a player turns the frames, clockwise in degrees: 0, 90, 180, 270.
        duration: In seconds; 0: unknown.
        source: Where it comes from, without a password.
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
