"""Programs that tests start: a program and all its children end with the test."""

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
"""Seconds until a hanging program is given up; far beyond any test's time on a busy machine.

Less than pytest's own limit, which ends the test's process and loses the program's output.
"""

# The kernel ends the program when the test's process ends, for any reason. A program of our own is
# between the two, because a function that runs after a fork may deadlock if the process has
# threads. Python ignores SIGPIPE, and a shell ignores SIGINT in the background. Ignored signals
# stay ignored in the next program.
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
    """Starts a program; at the end of the block, kills the program and all its children.

    ``python`` in the command is the interpreter of the tests. ``more``: as for `subprocess.Popen`.
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
            with contextlib.suppress(ProcessLookupError):  # no process of the session is left
                os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str | Path],
    *,
    check: bool = False,
    input: str | bytes | None = None,  # noqa: A002
    limit: float = LIMIT,
    **more: Any,
) -> subprocess.CompletedProcess[Any]:
    """Runs a program to its end; returns its status and its output, by default as text.

    Raises:
        subprocess.TimeoutExpired: The program had not ended after ``limit`` seconds.
        AssertionError: The program failed, and ``check`` is given.
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
