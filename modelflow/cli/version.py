"""The command ``modelflow version``: prints the installed versions."""

import importlib.metadata
import platform

import click

import modelflow
import modelflow.device
from modelflow.interpreter import find_locking_packages, has_lock, is_free_threaded
from modelflow.registry.native import include_folder
from modelflow.signals import ExitCode

_PACKAGES = (
    *("numpy", "opencv-python-headless", "simplejpeg"),
    *("tensorflow", "onnxruntime", "openvino", "torch", "av"),
)


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
        click.echo(f"packages that switch the lock on without PYTHON_GIL=0: {_join(locking)}")
    click.echo(f"devices: {', '.join(map(str, modelflow.device.available_devices()))}")
    return ExitCode.OK


def _join(packages: list[str] | None) -> str:
    if packages is None:
        return "unknown, because modelflow is not installed as a package"
    return ", ".join(packages) or "none"


def _describe_lock() -> str:
    """Returns the state of the interpreter's lock in a build that can run without it."""
    if not is_free_threaded():
        return ""
    return f" free-threaded, the interpreter's lock is {'on' if has_lock() else 'off'}"
