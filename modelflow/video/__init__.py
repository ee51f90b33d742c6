"""The packets and tracks of videos that flow units exchange, and the opening of addresses.

Importing this package does not load PyAV; `load_av` does.
"""

from modelflow.video.address import (
    RetryOptions,
    is_network_address,
    load_av,
    open_input,
    source_label,
)
from modelflow.video.packet import Track, build_packet, read_packet

__all__ = [
    "RetryOptions",
    "Track",
    "build_packet",
    "is_network_address",
    "load_av",
    "open_input",
    "read_packet",
    "source_label",
]
