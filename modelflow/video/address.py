"""Opens videos, files and network streams, and limits the protocols that FFmpeg may use.

PyAV is imported on first use.
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
    """Returns the module ``av`` with logging off, because errors are raised as exceptions.

    Raises:
        MissingDependencyError: PyAV is not installed.
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
    """The options of reopening a video."""

    retry_enable: bool = option(
        False,
        help="Open the video again if it cannot be opened or breaks off. A stream is also opened "
        "again at its end. A file continues after the last emitted packet.",
    )
    retry_interval_ms: int = option(
        1000,
        help="Milliseconds to wait before each further attempt.",
        minimum=0,
        maximum=3_600_000,
    )
    retry_count_limit: int = option(
        -1, help="Most attempts without a packet in between; -1: no limit.", minimum=-1
    )


_SCHEMES = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt")
# A playlist from the network must not make FFmpeg read files, and a file must not open the network.
_NETWORK = ",".join((*_SCHEMES, "tls", "httpproxy", "crypto", "hls", "applehttp"))
_FILES = "file,crypto,data"
_PASSWORD = re.compile(r"//[^/?#]*@")
_QUERY = re.compile(r"(://[^?#]*)[?#].*", re.DOTALL)


def is_network_address(address: str) -> bool:
    """Tells whether an address names a stream on the network.

    Raises:
        ValueError: the scheme is unknown.
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
    """Returns an address without secrets: without user, password, and the query's values."""
    return _QUERY.sub(r"\1?...", _PASSWORD.sub("//", address))


def open_input(address: str, open_timeout: float, read_timeout: float) -> Any:
    """Opens a video for reading.

    Args:
        address: A path, ``file://``, or a network address.
        open_timeout: The most seconds to wait for the network when opening.
        read_timeout: The most seconds to wait for the network when reading.

    Returns:
        PyAV's container.

    Raises:
        ValueError: the scheme is unknown, or the file does not exist.
        av.error.FFmpegError: FFmpeg cannot open the video.
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
    # Without "file:" a name such as "concat:a" would be a protocol.
    return av.open(f"file:{path}", options={"protocol_whitelist": _FILES})
