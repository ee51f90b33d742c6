"""`ServiceNotifier`: reports the state of a server to a service manager, as ``sd_notify`` does.

A report is a datagram of lines to the socket in ``NOTIFY_SOCKET``. systemd reads such reports from
a unit with ``Type=notify``. Without that variable, nothing is sent.
"""

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping, Sequence

logger = logging.getLogger(__name__)

# Seconds to wait for a manager that does not read. A heartbeat does not wait, because another
# follows.
_LONGEST, _BEAT = 1.0, 0.0
_MICROSECONDS = 1e6


class ServiceNotifier:
    """A client of the service manager that reports the state of the server.

    An invalid socket is logged once. A manager that does not read for a while misses only the
    reports of that time.

    Attributes:
        interval: Seconds within which the manager expects a heartbeat. None if it expects none.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Reads the manager's variables and removes them, because child processes must not report.

        Args:
            environment: The environment of the process.
        """
        self._address = environment.pop("NOTIFY_SOCKET", "")
        period = environment.pop("WATCHDOG_USEC", "")
        is_meant = environment.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.interval: float | None = None
        if self._address and is_meant and period.isdecimal() and int(period):
            self.interval = int(period) / _MICROSECONDS

    def ready(self, models: Sequence[str], address: str) -> None:
        """Reports that every model has loaded and the server answers."""
        self._tell("READY=1", f"STATUS=serves {', '.join(models) or 'nothing yet'} at {address}")

    def stopping(self) -> None:
        """Reports that the server begins to stop."""
        self._tell("STOPPING=1", "STATUS=answers its last requests, then ends")

    def beat(self) -> None:
        """Sends heartbeats while the running event loop turns.

        The rate is twice the rate that the manager expects. Sends none if the manager expects none.
        """
        if self.interval is not None:
            self._tell("WATCHDOG=1", longest=_BEAT)
        if self.interval is not None:  # still set: the socket works
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
                logging.WARNING if longest else logging.DEBUG,  # another heartbeat follows
                "NOTIFY_SOCKET=%s: the service manager does not read; not sent: %s",
                self._address,
                lines[0],
            )
        except OSError as error:
            logger.warning(
                "NOTIFY_SOCKET=%s: no report can be sent: %s; expected the path of a datagram "
                "socket, or @NAME; the manager will not know that the server runs",
                self._address,
                error.strerror or error,
            )
            self._address, self.interval = "", None
