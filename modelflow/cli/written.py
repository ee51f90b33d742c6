"""What a command writes into a file that an option names, or to standard output."""

import os
import sys
from pathlib import Path

from modelflow.errors import ConfigError
from modelflow.files.whole_file import write_whole

__all__ = ["check_output", "write_output"]


def check_output(option: str) -> None:
    """Checks that standard output is there to take data.

    Raises:
        ConfigError: it was closed when the program began (``>&-``).
    """
    if getattr(sys.stdout, "name", "") == os.devnull:  # put there by `modelflow.__main__`
        message = f"{option}: standard output is closed; give a file"
        raise ConfigError(message)


def write_output(option: str, target: str, data: bytes) -> None:
    """Writes a file, all of it or nothing; a device or a pipe as it comes.

    Args:
        option: What names it, for messages.
        target: The file, in a folder that is there; ``-``: standard output.
        data: Its contents.

    Raises:
        ConfigError: it cannot be written; the message says why.
    """
    if target == "-":
        check_output(f"{option} -")
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    path = Path(os.path.realpath(target))  # a link stays one
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            path.parent.stat()
            write_whole(path, data)
    except OSError as error:
        message = f"{option} {target}: cannot be written: {error.strerror or error}"
        raise ConfigError(message) from error
