"""Serves pages at an address of this machine, to clients with the token.

Requests are accepted only from pages of this server. A page of another site in the same browser can
send requests to this server, but it does not know the token. Its ``Origin`` is a different one. A
host name that such a site binds to this address is no valid ``Host`` here.
"""

import hmac
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import parse_qs

from modelflow.http.options import ConnectionLimits, Endpoint
from modelflow.http.reply import RefusedError, Reply, reply_of_status
from modelflow.http.request import Handler, RequestHead
from modelflow.http.server import Server, bind_socket
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.studio.pages import HEADERS

_LIMITS = ConnectionLimits(connections=64, per_client=64)
# Seconds for a client to receive the last data.
_LAST_SECONDS = 1.0


_NOTHING: Mapping[str, str] = MappingProxyType({})
# The port that browsers leave out of the ``Host`` header.
_UNSAID = 80
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


class TokenCheck:
    """The check of the head of every request.

    Attributes:
        token: The token that the address of a page must contain.
    """

    def __init__(self, host: str, port: int) -> None:
        """Takes the server's address; clients may use the address or a local name."""
        name = f"[{host}]" if ":" in host else host
        names = (*_LOCAL, name)
        self._hosts = {f"{one}:{port}" for one in names}
        if port == _UNSAID:
            self._hosts.update(names)
        self._is_anywhere = host in ("0.0.0.0", "::")
        self.token = secrets.token_urlsafe(16)

    def check(self, head: RequestHead, *, is_secret: bool, method: str = "GET") -> None:
        """Checks the head of a request.

        Args:
            head: The head of the request.
            is_secret: Whether the resource requires the token.
            method: The allowed method.

        Raises:
            RefusedError: The request is not allowed.
        """
        host = head.named.get(b"host", b"").decode("latin-1")
        if not self._is_anywhere and host not in self._hosts:
            raise _refuse(HTTPStatus.MISDIRECTED_REQUEST, f"this server is not {host!r}")
        origin = head.named.get(b"origin", b"").decode("latin-1")
        if origin and origin != f"http://{host}":
            raise _refuse(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")
        if head.method != method:
            raise _refuse(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"got {head.method}; expected {method}",
                {"allow": method},
            )
        token = parse_qs(head.target.partition("?")[2]).get("token", [""])[0]
        if is_secret and not hmac.compare_digest(token.encode(), self.token.encode()):
            raise _refuse(
                HTTPStatus.FORBIDDEN,
                "the address has no token, or a wrong one; open the one that was printed",
            )


def _refuse(status: HTTPStatus, message: str, more: Mapping[str, str] = _NOTHING) -> RefusedError:
    reply = reply_of_status(status, message)
    return RefusedError(Reply(reply.status, reply.body, {**reply.headers, **HEADERS, **more}))


class Site:
    """An address that is reserved at creation, and serves pages from `open` to `close`.

    Attributes:
        gate: The check of requests.
        address: The address of the server: ``http://HOST:PORT``.
        url: The URL of the pages, with the token that they require.
    """

    def __init__(self, host: str, port: int) -> None:
        """Reserves the address; port 0 selects any free port.

        Raises:
            OSError: The address is in use, or does not belong to this machine.
        """
        self._socket = bind_socket(Endpoint(host, port))
        bound = self._socket.getsockname()[1]
        self.gate = TokenCheck(host, bound)
        root = str(Endpoint(host, bound))
        self.address, self.url = root.rstrip("/"), f"{root}?token={self.gate.token}"

    def open(self, handler: Handler) -> None:
        """Starts answering; releases the address if that fails.

        Raises:
            OSError: Another process listens at the address.
            MissingDependencyError: The package that reads requests is not installed.
        """
        try:
            self._server = Server(self._socket, handler, _LIMITS)
        except BaseException:
            self._socket.close()
            raise

    @property
    def loop_queue(self) -> LoopQueue:
        """The event loop of the server, once the site is open."""
        return self._server.loop_queue

    def close(self) -> None:
        """Stops answering and releases the address."""
        self._server.close(_LAST_SECONDS)
        self._socket.close()
