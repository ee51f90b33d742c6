"""A program that a benchmark starts, and that ends with the benchmark, its children included."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

__all__ = ["started"]

# The kernel interrupts the program when the benchmark ends, also if the benchmark is killed. It
# needs a program between the two, because a function that runs after a fork may deadlock in a
# process with several threads.
_LAUNCH = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):  # else it has ended before it was asked for
    os.execvp(sys.argv[2], sys.argv[2:])"""


@contextlib.contextmanager
def started(command: Sequence[str], **more: object) -> Iterator[subprocess.Popen]:
    """Starts a program, and kills the program and all its children at the end of the block.

    Args:
        command: The program and its arguments.
        more: As for `subprocess.Popen`.
    """
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    with subprocess.Popen([*launch, *command], start_new_session=True, **more) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):  # no process of the group is left
                os.killpg(process.pid, signal.SIGKILL)
