"""`ServiceNotifier`: tells a service manager how a server is, as ``sd_notify`` has it.

A datagram of lines to the socket that ``NOTIFY_SOCKET`` names; systemd reads them from a unit with
``Type=notify``. Without that variable nothing is told.
"""

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping, Sequence

logger = logging.getLogger(__name__)

# Seconds that it waits for a manager that does not read; a beat does not wait: another follows.
_LONGEST, _BEAT = 1.0, 0.0
_MICROSECONDS = 1e6


class ServiceNotifier:
    """Tells how a server is. What is wrong with the socket is said once, in the log.

    A manager that does not read for a while misses what it is told meanwhile, and no more.

    Attributes:
        interval: Seconds within which the manager wants to hear that the server lives; None: it
            does not ask.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Takes what is said of the manager out of the environment: no other process speaks for us.

        Args:
            environment: That of the process.
        """
        self._address = environment.pop("NOTIFY_SOCKET", "")
        period = environment.pop("WATCHDOG_USEC", "")
        is_meant = environment.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.interval: float | None = None
        if self._address and is_meant and period.isdecimal() and int(period):
            self.interval = int(period) / _MICROSECONDS

    def ready(self, models: Sequence[str], address: str) -> None:
        """Says that everything is loaded, and answers."""
        self._tell("READY=1", f"STATUS=serves {', '.join(models) or 'nothing yet'} at {address}")

    def stopping(self) -> None:
        """Says that it begins to end."""
        self._tell("STOPPING=1", "STATUS=answers what it has taken on, then ends")

    def beat(self) -> None:
        """Says that it lives, and goes on to: as long as the running event loop turns.

        Twice as often as the manager asks. Nothing where it does not ask.
        """
        if self.interval is not None:
            self._tell("WATCHDOG=1", longest=_BEAT)
        if self.interval is not None:  # it could be told
            asyncio.get_running_loop().call_later(self.interval / 2, self.beat)

    def _tell(self, *lines: str, longest: float = _LONGEST) -> None:
        if not self._address:
            return
        place = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(longest)
                sender.sendto("\n".join(lines).encode(), place)
        except (TimeoutError, BlockingIOError):
            logger.log(
                logging.WARNING if longest else logging.DEBUG,  # a beat is told again
                "NOTIFY_SOCKET=%s: the service manager does not read; not told: %s",
                self._address,
                lines[0],
            )
        except OSError as error:
            logger.warning(
                "NOTIFY_SOCKET=%s: nothing can be told there: %s; expected the path of a datagram "
                "socket, or @NAME; the service manager will not know that it serves",
                self._address,
                error.strerror or error,
            )
            self._address, self.interval = "", None
