"""The command ``modelflow version``: prints the installed versions."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import modelflow
import modelflow.device
from modelflow.device.interpreter import has_lock, is_free_threaded
from modelflow.registry.native import include_folder
from modelflow.signals import ExitCode

_PACKAGES = (
    *("numpy", "opencv-python-headless", "simplejpeg"),
    *("tensorflow", "onnxruntime", "openvino", "torch", "av"),
)

# Seconds for the import of one package. TensorFlow needs five on two busy processors.
_IMPORT_LIMIT = 120.0
_LOCKED = 3  # the exit code of the process, which is 1 if the import fails
_ASK = "import importlib, sys; importlib.import_module(sys.argv[1]); "
_ASK += f"sys.exit({_LOCKED} * sys._is_gil_enabled())"


@click.command()
@click.option("--include", is_flag=True, help="Print only the folder of modelflow_unit.h.")
def version(include: bool) -> int:
    """Prints the versions of modelflow and of its libraries, and the available devices."""
    if include:
        click.echo(include_folder())
        return ExitCode.OK
    click.echo(f"modelflow {modelflow.__version__}")
    click.echo(f"Python {platform.python_version()}{_describe_lock()}")
    for package in _PACKAGES:
        try:
            click.echo(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            click.echo(f"{package}: not installed")
    if is_free_threaded():
        locking = find_locking_packages("modelflow-graph")
        click.echo(f"modelflow's packages that switch the lock on: {_join(locking)}")
    click.echo(f"devices: {', '.join(map(str, modelflow.device.available_devices()))}")
    return ExitCode.OK


def _join(packages: list[str] | None) -> str:
    if packages is None:
        return "unknown, because modelflow is not installed as a package"
    return ", ".join(packages) or "none"


def _describe_lock() -> str:
    """Returns the state of the interpreter's lock; empty if this build always has a lock."""
    if not is_free_threaded():
        return ""
    return f" free-threaded, the interpreter's lock is {'on' if has_lock() else 'off'}"


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
    """Returns whether the import of a module switches the lock on; False if the import fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-c", _ASK, module]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, check=False, env=environment, capture_output=True, timeout=_IMPORT_LIMIT
        )
        return done.returncode == _LOCKED
    return False
