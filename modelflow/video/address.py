"""Addresses of videos: files and network streams, and what FFmpeg may open for each. Loads
PyAV on use.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from modelflow.errors import MissingDependencyError, did_you_mean
from modelflow.unit.option import option


@cache
def load_av() -> Any:
    """Returns the module ``av``, silent on stderr: what goes wrong is raised.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import av
        import av.logging
    except ModuleNotFoundError as error:
        raise MissingDependencyError("av", "video", "a video unit") from error
    av.logging.set_level(None)
    return av


@dataclass(frozen=True)
class RetryOptions:
    """When a video is opened again."""

    retry_enable: bool = option(
        False,
        help="Open it again where it does not open, or breaks off; a stream also at its end. A "
        "file goes on behind what was given.",
    )
    retry_interval_ms: int = option(
        1000, help="Milliseconds to wait before.", minimum=0, maximum=3_600_000
    )
    retry_count_limit: int = option(
        -1, help="Most attempts without a packet in between; -1: without end.", minimum=-1
    )


_SCHEMES = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt")
# A playlist from the network must not make FFmpeg read files, nor one in a file the network.
_NETWORK = ",".join((*_SCHEMES, "tls", "httpproxy", "crypto", "hls", "applehttp"))
_FILES = "file,crypto,data"
_PASSWORD = re.compile(r"//[^/?#]*@")
_QUERY = re.compile(r"(://[^?#]*)[?#].*", re.DOTALL)


def is_network_address(address: str) -> bool:
    """Tells whether an address names a stream on the network.

    Raises:
        ValueError: it has a scheme that is not known.
    """
    scheme, colon, _ = address.partition("://")
    if not colon or scheme.lower() == "file":
        return False
    if scheme.lower() not in _SCHEMES:
        near = did_you_mean(scheme, _SCHEMES)
        raise ValueError(
            f"got the address {source_label(address)!r}; expected a path, or {', '.join(_SCHEMES)}"
            f"://...{near}"
        )
    return True


def source_label(address: str) -> str:
    """Returns an address as it may be shown: without user, password, and the query's values."""
    return _QUERY.sub(r"\1?...", _PASSWORD.sub("//", address))


def open_input(address: str, open_timeout: float, read_timeout: float) -> Any:
    """Opens a video for reading.

    Args:
        address: A path, ``file://``, or a network address.
        open_timeout: Longest wait in seconds for the network, to open.
        read_timeout: The same, to read.

    Returns:
        PyAV's container.

    Raises:
        ValueError: no such scheme, or no such file.
        av.error.FFmpegError: it does not open.
    """
    av = load_av()
    if is_network_address(address):
        options = {"protocol_whitelist": _NETWORK}
        if urlsplit(address).scheme.lower().startswith("rtsp"):
            options["rtsp_transport"] = "tcp"
        return av.open(address, options=options, timeout=(open_timeout, read_timeout))
    path = Path(address.removeprefix("file://"))
    if not path.is_file():
        raise ValueError(f"got the path {str(path)!r}, which is no file; expected a video")
    # A name such as "concat:a" would be a protocol.
    return av.open(f"file:{path}", options={"protocol_whitelist": _FILES})
