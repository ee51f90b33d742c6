"""A process that belongs to a flow: how it is started, what it must know, how it ends with it."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from modelflow.signals import ExitCode

# How long a process may take to end by itself once it is to.
END_TIMEOUT = 5.0

_PR_SET_PDEATHSIG = 1


class Preparation:
    """Whether this process imports the main module of another one, which must not start it all."""

    is_so = False


def start_process(
    entry: str, ends: Sequence[int], search_path: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Starts a process of Python.

    Args:
        entry: ``package.module:function``, which is given the arguments: the descriptors, as texts,
            and the number of this process.
        ends: Descriptors that it is given.
        search_path: Where it looks for modules, as ``sys.path``; in the current folder only where
            that says so: a file there may bear the name of a module of Python's.

    Raises:
        OSError: it cannot be started.
    """
    module, _, function = entry.partition(":")
    command = f"import sys; from {module} import {function}; {function}(sys.argv[1:])"
    flags = () if "" in search_path else ("-P",)
    return subprocess.Popen(
        [sys.executable, *flags, "-c", command, *map(str, ends), str(os.getpid())],
        pass_fds=ends,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search_path))},
    )


def preparation_of(name: str, search_path: Sequence[str], pickled: bytes) -> dict[str, Any]:
    """Returns what a process must do (`prepare`) before it can read ``pickle_message``.

    The main module is imported there only where something in it is needed.
    """
    preparation = spawn.get_preparation_data(name)
    preparation["sys_path"] = [folder or preparation["orig_dir"] for folder in search_path]
    preparation.pop("authkey", None)  # of multiprocessing's own connections
    if b"__main__" not in pickled:
        for key in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(key, None)
    return preparation


def is_main_importable(preparation: Mapping[str, Any]) -> bool:
    """Tells whether a process can import the main module: that of a notebook has no file."""
    path = preparation.get("init_main_from_path")
    return "init_main_from_name" in preparation or (path is not None and Path(path).is_file())


def prepare(preparation: Mapping[str, Any]) -> None:
    """Sets up where modules are found, and the main module; in the process itself."""
    Preparation.is_so = True
    spawn.prepare(dict(preparation))
    Preparation.is_so = False


def end_with(parent: int) -> None:
    """Has the system end this process when the flow's is gone, also where that was killed.

    Ctrl-C is the flow's: it decides what becomes of its processes.

    Raises:
        SystemExit: it is gone already.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(ExitCode.FAILED)


def see_end_of(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a process; one that does not end within `END_TIMEOUT` is killed."""
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_of(process: subprocess.Popen[bytes]) -> str:
    """Says how a process has ended: ``status 3``, or the signal that killed it."""
    status = process.returncode
    return f"status {status}" if status >= 0 else signal.Signals(-status).name
