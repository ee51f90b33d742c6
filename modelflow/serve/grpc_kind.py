"""The servers that there are for gRPC, and which of them can be had."""

import logging
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

__all__ = ["GrpcKind", "can_serve", "has_zttp"]

logger = logging.getLogger(__name__)

# Its interface may change with every version, and what `http2/frames.py` and `wear.py` say of it.
_ZTTP = "0.0.35"


class GrpcKind(StrEnum):
    """Which server answers gRPC."""

    AUTO = "auto"
    """Ours where zttp is installed in the version that it was tried with, else grpcio's."""
    NATIVE = "native"
    """Ours, on zttp: several times cheaper a call."""
    GRPCIO = "grpcio"
    """grpcio's, in its asyncio form."""


def can_serve() -> bool:
    """Tells whether there is a package to serve gRPC with."""
    return find_spec("grpc") is not None or has_zttp()


def has_zttp() -> bool:
    """Tells whether zttp is installed, in the version that was tried."""
    try:
        found = version("zttp")
    except PackageNotFoundError:
        return False
    if found != _ZTTP:
        message = "zttp %s is not used for gRPC, as only %s was tried: pip install zttp==%s"
        logger.warning(message, found, _ZTTP, _ZTTP)
    return found == _ZTTP
