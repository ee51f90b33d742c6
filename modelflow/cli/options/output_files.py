"""A file that a command writes: whole or not at all."""

import os
import sys
from pathlib import Path

from modelflow.errors import explain_os_error
from modelflow.files.whole_file import check_standard_output, write_whole


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
        check_standard_output(f"{option} -")
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    path = Path(os.path.realpath(target))  # a link stays one
    with explain_os_error(f"{option} {target}: cannot be written"):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            path.parent.stat()
            write_whole(path, data)
