"""Videos as flow units pass them: packets, what they belong to, and how addresses are opened.

Importing this package does not load PyAV; `load_av` does.
"""

from modelflow.video.address import is_network_address, open_input, source_label
from modelflow.video.library import load_av
from modelflow.video.packet import build_packet, read_packet
from modelflow.video.retry import RetryOptions
from modelflow.video.track import Track

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
