"""Runs the command line in the tests' process, because Python's start is slower than most commands.

A separate program is needed for tests of signals, pipes, the interpreter's end, a terminal, or
imports. The same holds for code that writes to the streams' descriptors.
"""

import contextlib
import logging
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from unittest import mock

from modelflow.cli import main
from modelflow.registry.folder_modules import is_of_folder
from modelflow.registry.forget import forget_named
from modelflow.unit import function

__all__ = ["run_here", "run_script"]


def run_here(
    arguments: tuple[str, ...],
    *,
    env: Mapping[str, str],
    input: str | bytes = b"",  # noqa: A002
    text: bool = True,
    check: bool = False,
) -> subprocess.CompletedProcess[Any]:
    """Runs a command to its end; returns its status and output, as `programs.run` does.

    Afterwards the state of the process is as before, except for imported modules of others.

    Raises:
        AssertionError: The command failed, and ``check`` is given.
    """
    given = input.encode() if isinstance(input, str) else input
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(given)
        files[0].seek(0)
        code = _code(arguments, env, files)
        output, errors = (_written(file) for file in files[1:])
    if text:
        output, errors = output.decode(), errors.decode()
    if check:
        assert code == 0, f"{arguments}\n{output}\n{errors}"
    return subprocess.CompletedProcess(arguments, code, output, errors)


def run_script(path: Path, *arguments: str | Path) -> None:
    """Runs a program of this project to its end, without the tests' warning filters."""
    with (
        mock.patch.object(sys, "argv", [str(path), *map(str, arguments)]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise


def _written(file: IO[bytes]) -> Any:
    file.seek(0)
    return file.read()


def _code(arguments: tuple[str, ...], env: Mapping[str, str], files: list[IO[bytes]]) -> int:
    with _streams(files), _logging(), _state(), mock.patch.dict(os.environ, env):
        try:
            main.main(list(arguments))
        except SystemExit as end:
            return int(end.code or 0)
        except Exception:  # noqa: BLE001 - as the interpreter does
            traceback.print_exc()
            return 1
    raise AssertionError("a command ends with its code")


@contextlib.contextmanager
def _streams(files: list[IO[bytes]]) -> Iterator[None]:
    """Replaces the standard streams by files with their own descriptors."""
    with contextlib.ExitStack() as stack:
        for name, mode, file in zip(("stdin", "stdout", "stderr"), "rww", files, strict=True):
            errors = "backslashreplace" if name == "stderr" else "strict"
            stream = open(  # noqa: SIM115 - closed below
                os.dup(file.fileno()), mode, encoding="utf-8", errors=errors, buffering=1
            )
            stack.enter_context(stream)
            stack.enter_context(mock.patch.object(sys, name, stream))
        yield


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Lets the command set up logging as in a separate process."""
    root, own = logging.getLogger(), logging.getLogger("modelflow")
    handlers, level = root.handlers[:], own.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        own.setLevel(level)


@contextlib.contextmanager
def _state() -> Iterator[None]:
    """Restores the search path for units, and the table of decorated units.

    Modules of the working folder and of unit folders are forgotten. Threads of a unit that hangs
    end the process of a command; here they fail the test.
    """
    path, declared, before = list(sys.path), dict(function._declared), set(sys.modules)
    try:
        with mock.patch.object(main, "_leave_hung_threads"):
            yield
    finally:
        sys.path[:] = path
        new = sys.modules.keys() - before
        forget_named({name for name in new if _is_of_here(name) or is_of_folder(name)})
        function._declared.clear()
        function._declared.update(declared)


def _is_of_here(name: str) -> bool:
    module = sys.modules[name]
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return place.startswith(os.getcwd() + os.sep)
