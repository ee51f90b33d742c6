"""The file that ``-o`` names."""

from pathlib import Path

from modelflow.errors import ConfigError

__all__ = ["write"]


def write(path: Path, data: bytes) -> None:
    """Writes a file.

    Raises:
        ConfigError: it cannot be written; the message says why.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        message = f"-o {path}: cannot be written: {error.strerror}"
        raise ConfigError(message) from error
