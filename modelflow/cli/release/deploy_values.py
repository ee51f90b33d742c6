"""Values of the options of ``modelflow deploy``: ports, replicas, mounted files, the wheel."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from modelflow.errors import ConfigError

PORTS = range(1024, 65_536)
"""Allowed ports: the server in a container does not run as root."""

_BASE = re.compile(r"[a-z0-9][A-Za-z0-9._/:-]{0,250}@sha256:[0-9a-f]{64}")
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._/-]*)?")
_REPLICAS = re.compile(r"([1-9]\d{0,3})(?:\.\.([1-9]\d{0,3}))?")
_MOUNT = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)=((?:/[A-Za-z0-9._-]+)+)")


def base_of(text: str | None) -> str:
    """Parses ``--base-image``; returns ``""`` for None.

    Raises:
        ConfigError: The value is no name with a digest.
    """
    if text is not None and not _BASE.fullmatch(text):
        name = text.partition("@")[0] or "NAME"
        raise ConfigError(
            f"--base-image: got {text!r}; expected NAME@sha256:DIGEST with 64 hexadecimal digits; "
            f"docker buildx imagetools inspect {name} prints the digest"
        )
    return text or ""


def prometheus_of(text: str | None) -> str:
    """Parses ``--keda``; returns ``""`` for None.

    Raises:
        ConfigError: The value is no URL.
    """
    if text is not None and not _URL.fullmatch(text):
        raise ConfigError(
            f"--keda: got {text!r}; expected the URL of Prometheus, as in "
            "http://prometheus-server.monitoring:80"
        )
    return text or ""


def grpc_port_of(text: str, http: int) -> int | None:
    """Parses ``--grpc-port``; returns None for ``off``.

    Args:
        text: The value of the option.
        http: The port for HTTP.

    Raises:
        ConfigError: The text is no allowed port, or is the port for HTTP.
    """
    if text == "off":
        return None
    port = int(text) if text.isascii() and text.isdecimal() else 0
    if not PORTS.start <= port < PORTS.stop or port == http:
        raise ConfigError(
            f"--grpc-port: got {text!r}; expected off, or a port from {PORTS.start} to "
            f"{PORTS.stop - 1}, other than that for HTTP ({http})"
        )
    return port


def mounts_of(texts: Sequence[str]) -> dict[str, str]:
    """Parses ``--mount NAME=/FOLDER``: returns the folders by name.

    Raises:
        ConfigError: A text has another form, or the folder belongs to the image.
    """
    found: dict[str, str] = {}
    for text in texts:
        parts = _MOUNT.fullmatch(text)
        if parts is None or parts[2].startswith(("/tmp", "/app", "/opt/venv")):
            raise ConfigError(
                f"--mount: got {text!r}; expected NAME=/FOLDER, the name in small letters, digits "
                "and '-', the folder none of the image's own (/app, /opt/venv, /tmp), as in "
                "tls=/etc/tls"
            )
        found[parts[1]] = parts[2]
    return found


def replicas_of(text: str) -> tuple[int, int]:
    """Parses ``--replicas``: returns the minimum and the maximum.

    Raises:
        ConfigError: The text is no number, and no range.
    """
    found = _REPLICAS.fullmatch(text)
    least, most = (0, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
    if found is None or least > most:
        raise ConfigError(f"--replicas: got {text!r}; expected N or MIN..MAX, as in 2..8")
    return least, most


def wheel_of(path: Path | None, version: str) -> tuple[str, str]:
    """Returns the file name of ``--wheel`` and its SHA-256, or two empty texts.

    Args:
        path: The file.
        version: The version of modelflow that packed the archive.

    Raises:
        ConfigError: The file is no wheel of that version.
    """
    if path is None:
        return "", ""
    try:
        found = parse_wheel_filename(path.name)[:2]
    except InvalidWheelFilename:
        found = None
    if found != ("modelflow-graph", Version(version)):
        raise ConfigError(
            f"--wheel: got {path.name!r}; expected the wheel of modelflow-graph {version}, which "
            "the graph was packed with: pip wheel --no-deps FOLDER_OF_MODELFLOW"
        )
    return path.name, hashlib.sha256(path.read_bytes()).hexdigest()
