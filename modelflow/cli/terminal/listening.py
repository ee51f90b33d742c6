"""Where an option asks to listen: ``PORT``, ``HOST:PORT`` or ``[HOST]:PORT``."""

import threading
import webbrowser

import click

from modelflow.signals import ExitCode, termination

_MOST = 65535


def split_address(option: str, address: str) -> tuple[str, int]:
    """Returns host and port; without a host 127.0.0.1. Port 0: any that is free.

    Args:
        option: The option's name, for messages.
        address: Its value.

    Raises:
        click.UsageError: it is none.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(_MOST))
    if not is_number or int(port) > _MOST or (colon and not host) or "/" in host:
        raise click.UsageError(f"{option} {address}: expected PORT, HOST:PORT or [HOST]:PORT")
    return host, int(port)


def show_until_the_end(what: str, url: str, *, is_opened: bool) -> int:
    """Says where pages are, opens them in the browser if so asked, and waits for SIGTERM.

    Returns:
        The exit code of SIGTERM; a Ctrl-C is raised.
    """
    click.echo(f"{what}: {url}", err=True)
    if is_opened:
        webbrowser.open(url)
    over = threading.Event()
    with termination(threading.Event(), over.set):
        over.wait()
    return ExitCode.TERMINATED
