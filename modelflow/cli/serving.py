"""What the options of ``modelflow serve`` ask for, and what is told of it."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.serve_settings import settings
from modelflow.cli.sources import catalogue_of

if TYPE_CHECKING:
    from modelflow.serve.catalogue import Catalogue
    from modelflow.serve.options import ServeOptions

__all__ = ["catalogue_given", "explained", "options_given", "tell"]

_OF_CATALOGUE = ("overrides", "args", "versions", "labels", "config_file", "batching_file")


def catalogue_given(given: Mapping[str, Any]) -> "Catalogue":
    """Returns what is to be served.

    Args:
        given: The values of all options, by parameter.

    Raises:
        click.UsageError, ConfigError: as `catalogue_of`.
    """
    return catalogue_of(given["sources"], **{name: given[name] for name in _OF_CATALOGUE})


def options_given(given: Mapping[str, Any]) -> "ServeOptions":
    """Returns where to listen, and what to take.

    Args:
        given: The values of all options, by parameter; ``http`` and ``grpc`` as host and port.

    Raises:
        click.UsageError: options do not go together.
    """
    from modelflow.serve.options import ServeOptions

    host, port = given["http"]
    grpc_host, grpc_port = given["grpc"]
    return ServeOptions(
        host=host,
        http_port=port,
        grpc_host=grpc_host,
        grpc_port=grpc_port,
        is_repository_open=given["allow_repository"],
        **settings(given),
    )


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Says what to do about an address that cannot be had inside the block.

    Raises:
        click.ClickException: there is such a one.
    """
    try:
        yield
    except OSError as error:
        where = error.strerror or str(error)
        message = f"{where}; give another address: --http HOST:PORT, --grpc HOST:PORT"
        raise click.ClickException(message) from error


def tell(models: Sequence[str], address: str, grpc_address: str) -> None:
    """Prints what is served, and where."""
    names = ", ".join(models) or "nothing yet"
    click.echo(f"serves {names} at {address}", err=True)
    if grpc_address:
        click.echo(f"serves {names} over gRPC at {grpc_address}", err=True)
