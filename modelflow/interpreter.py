"""The Python that runs modelflow: whether its threads run Python code at the same time."""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Seconds for the import of one package. TensorFlow needs five on two busy processors.
_IMPORT_LIMIT = 120.0
_LOCKED = 3  # the exit code of the process, which is 1 if the import fails
_ASK = "import importlib, sys; importlib.import_module(sys.argv[1]); "
_ASK += f"sys.exit({_LOCKED} * sys._is_gil_enabled())"


def has_lock() -> bool:
    """Returns whether the interpreter has a lock, so one thread at a time runs Python code.

    A free-threaded build starts without the lock. It switches the lock on when it loads an
    extension module that does not declare to need none, unless ``PYTHON_GIL=0`` is set.
    """
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def is_free_threaded() -> bool:
    """Returns whether this is a build of Python that can run without the lock."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def find_locking_packages(distribution: str) -> list[str] | None:
    """Returns the installed requirements of a distribution that switch the lock on, in order.

    Each one with extension modules is imported in a process of its own.

    Args:
        distribution: The name of a distribution. The requirements of its extras count as well.

    Returns:
        The names, sorted. None if the distribution is not installed.
    """
    try:
        requirements = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    modules = dict(_find_modules(requirements))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        answers = pool.map(_is_locking, modules.values())
        return sorted(name for name, answer in zip(modules, answers, strict=True) if answer)


def _find_modules(requirements: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each installed requirement that has extension modules, with a module to import."""
    modules: dict[str, str] = {}
    for module, owners in importlib.metadata.packages_distributions().items():
        for owner in owners:
            if not module.startswith("_"):
                modules.setdefault(canonicalize_name(owner), module)
    for requirement in requirements:
        name = canonicalize_name(Requirement(requirement).name)
        if name in modules and _has_extensions(name):
            yield name, modules[name]


def _has_extensions(name: str) -> bool:
    return any(file.suffix == ".so" for file in importlib.metadata.files(name) or ())


def _is_locking(module: str) -> bool:
    """Returns whether the import of a module switches the lock on; False if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-c", _ASK, module]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, check=False, env=environment, capture_output=True, timeout=_IMPORT_LIMIT
        )
        return done.returncode == _LOCKED
    return False
