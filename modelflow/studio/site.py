"""An address of this machine where pages are served."""

from modelflow.http.options import ConnectionLimits, Endpoint
from modelflow.http.request import Handler
from modelflow.http.server import Server, bind_socket
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.studio.token_check import TokenCheck

_LIMITS = ConnectionLimits(connections=64, per_client=64)
# Seconds for a client to take the last that is sent.
_LAST_SECONDS = 1.0


class Site:
    """Has the address from the beginning, and answers from `open` to `close`.

    Attributes:
        gate: Who may come in.
        address: Where it answers: ``http://HOST:PORT``.
        url: Where the pages are; with the token without which nothing is shown.
    """

    def __init__(self, host: str, port: int) -> None:
        """Takes the address; port 0: any that is free.

        Raises:
            OSError: it is in use, or not of this machine.
        """
        self._socket = bind_socket(Endpoint(host, port))
        bound = self._socket.getsockname()[1]
        self.gate = TokenCheck(host, bound)
        root = str(Endpoint(host, bound))
        self.address, self.url = root.rstrip("/"), f"{root}?token={self.gate.token}"

    def open(self, handler: Handler) -> None:
        """Begins to answer; where that fails the address is given up.

        Raises:
            OSError: somebody else listens there.
            MissingDependencyError: what reads requests is not installed.
        """
        try:
            self._server = Server(self._socket, handler, _LIMITS)
        except BaseException:
            self._socket.close()
            raise

    @property
    def loop_queue(self) -> LoopQueue:
        """The loop of the server; once it is open."""
        return self._server.loop_queue

    def close(self) -> None:
        """Answers no more."""
        self._server.close(_LAST_SECONDS)
        self._socket.close()
