"""``modelflow version``: what is installed here."""

import importlib.metadata
import platform

import click

import modelflow.device

__all__ = ["version", "version_text"]

_PACKAGES = (
    "numpy",
    "opencv-python-headless",
    "simplejpeg",
    "tensorflow",
    "onnxruntime",
    "torch",
    "av",
)


def version_text() -> str:
    """Returns modelflow's own version."""
    return importlib.metadata.version("modelflow")


@click.command()
def version() -> int:
    """Prints the versions of modelflow and of what it uses, and the devices there are."""
    click.echo(f"modelflow {version_text()}")
    click.echo(f"Python {platform.python_version()}")
    for package in _PACKAGES:
        try:
            click.echo(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            click.echo(f"{package}: not installed")
    click.echo(f"devices: {', '.join(map(str, modelflow.device.available_devices()))}")
    return 0
