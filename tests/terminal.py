"""Runs programs on a pseudo-terminal of 80 columns."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path

from tests import programs

__all__ = ["WIDTH", "lines_of", "on_terminal"]

WIDTH = 80
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")


def on_terminal(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> tuple[int, str]:
    """Runs ``modelflow`` with its output and errors on a terminal.

    Args:
        folder: The working folder.
        arguments: The arguments.
        env: Variables in addition to ``TERM=xterm-256color``.
        watch: Called with the text so far, after each part.

    Returns:
        The exit code, and the text with escape codes.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in _FORCING}
    try:
        with programs.started(
            [sys.executable, "-m", "modelflow", *arguments],
            cwd=folder,
            env={**kept, "TERM": "xterm-256color", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            parts = []
            while part := _read(ours):
                parts.append(part)
                watch(b"".join(parts).decode(errors="replace"))
            code = process.wait(programs.LIMIT)
    finally:
        os.close(ours)
    return code, b"".join(parts).decode()


_FORCING = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the program has closed its side
        return b""


def lines_of(text: str) -> list[str]:
    """Returns the lines of an output, also lines that were replaced, without escape codes."""
    return [line for line in re.split(r"[\r\n]+", _ESCAPE.sub("", text)) if line]
