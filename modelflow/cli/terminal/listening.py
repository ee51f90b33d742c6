"""Addresses to listen on: ``PORT``, ``HOST:PORT`` or ``[HOST]:PORT``."""

import threading
import webbrowser

import click

from modelflow.signals import ExitCode, termination

_MOST = 65535


def split_address(option: str, address: str) -> tuple[str, int]:
    """Parses an address into host and port; the default host is 127.0.0.1.

    Port 0 means any free port.

    Args:
        option: The option's name, for messages.
        address: The option's value.

    Raises:
        click.UsageError: The value is no address.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(_MOST))
    if not is_number or int(port) > _MOST or (colon and not host) or "/" in host:
        raise click.UsageError(f"{option} {address}: expected PORT, HOST:PORT or [HOST]:PORT")
    return host, int(port)


def show_until_the_end(what: str, url: str, *, is_opened: bool) -> int:
    """Prints the URL of pages, opens the browser if ``is_opened``, and waits for SIGTERM.

    Returns:
        The exit code for SIGTERM; a Ctrl-C raises.
    """
    click.echo(f"{what}: {url}", err=True)
    if is_opened:
        webbrowser.open(url)
    over = threading.Event()
    with termination(threading.Event(), over.set):
        over.wait()
    return ExitCode.TERMINATED
