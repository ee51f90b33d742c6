"""The programs that tests start: each with all that it starts itself ends with its test."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["LIMIT", "run", "started"]

LIMIT = 450.0
"""Seconds until what hangs is given up; far beyond what any test takes on a busy machine.

Less than pytest's own limit, which ends the test's process, and what the program has said is lost.
"""

# The kernel ends the program when the test's process ends, however it does. A program of our own
# between the two, since a function that runs after a fork may deadlock where there are threads.
# Python ignores SIGPIPE, a shell SIGINT in the background, and what is ignored stays so in the next
# program.
_LAUNCH = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.SIG_DFL)
if os.getppid() == int(sys.argv[1]):  # else that process has ended before it was asked for
    os.execvp(sys.argv[2], sys.argv[2:])"""


@contextlib.contextmanager
def started(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, **more: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Starts a program; at the end of the block it is killed with all that it has started.

    ``python`` in it is the interpreter of the tests. ``more``: as for `subprocess.Popen`.
    """
    environment = dict(os.environ if env is None else env)
    folder = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join((folder, environment.get("PATH", os.defpath)))
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *map(str, command)],
        env=environment,
        start_new_session=True,
        **more,
    )
    with process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):  # nothing of it is left
                os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str | Path],
    *,
    check: bool = False,
    input: str | bytes | None = None,  # noqa: A002
    limit: float = LIMIT,
    **more: Any,
) -> subprocess.CompletedProcess[Any]:
    """Runs a program to its end; returns its status and what it wrote, as text unless told.

    Raises:
        subprocess.TimeoutExpired: It had not ended after ``limit`` seconds.
        AssertionError: It failed, and ``check`` is given.
    """
    pipe = subprocess.PIPE
    given = {"stdin": pipe} if input is not None else {}
    more = {"text": True, **given, **more}
    with started(command, stdout=pipe, stderr=pipe, **more) as process:
        output, errors = process.communicate(input, limit)
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        assert done.returncode == 0, f"{command}\n{output}\n{errors}"
    return done
