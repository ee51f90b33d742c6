"""Output files of commands: a file is written completely or not at all."""

import os
import sys
from pathlib import Path

from modelflow.errors import explain_os_error
from modelflow.files.whole_file import check_standard_output, write_whole


def write_output(option: str, target: str, data: bytes) -> None:
    """Writes a file completely or not at all; a device or pipe is written directly.

    Args:
        option: The option with the path, for messages.
        target: The file, in an existing folder; ``-`` for standard output.
        data: The contents.

    Raises:
        ConfigError: The file cannot be written; the message has the reason.
    """
    if target == "-":
        check_standard_output(f"{option} -")
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    path = Path(os.path.realpath(target))  # replace the target of a link, not the link
    with explain_os_error(f"{option} {target}: cannot be written"):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            path.parent.stat()
            write_whole(path, data)
