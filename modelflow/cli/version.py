"""The command ``modelflow version``: prints the installed versions."""

import importlib.metadata
import platform

import click

import modelflow
import modelflow.device
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
    click.echo(f"Python {platform.python_version()}")
    for package in _PACKAGES:
        try:
            click.echo(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            click.echo(f"{package}: not installed")
    click.echo(f"devices: {', '.join(map(str, modelflow.device.available_devices()))}")
    return ExitCode.OK
