"""An address of this machine where pages are served, and who may see them.

Whoever has the token may, from a page of this server alone. A page of another site that the same
browser has open can send requests here, but it cannot know the token, its ``Origin`` is another,
and a name that it has bound to this address is no ``Host`` here.
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
# Seconds for a client to take the last that is sent.
_LAST_SECONDS = 1.0


_NOTHING: Mapping[str, str] = MappingProxyType({})
# The port that browsers do not write.
_UNSAID = 80
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


class TokenCheck:
    """Looks at the head of every request.

    Attributes:
        token: What the address of a page must bring.
    """

    def __init__(self, host: str, port: int) -> None:
        """Takes where the server listens; it may be called by that name, or as this machine."""
        name = f"[{host}]" if ":" in host else host
        names = (*_LOCAL, name)
        self._hosts = {f"{one}:{port}" for one in names}
        if port == _UNSAID:
            self._hosts.update(names)
        self._is_anywhere = host in ("0.0.0.0", "::")
        self.token = secrets.token_urlsafe(16)

    def check(self, head: RequestHead, *, is_secret: bool, method: str = "GET") -> None:
        """Looks at the head of a request.

        Args:
            head: The request's.
            is_secret: What it asks for is for those alone who have the token.
            method: How it is to be asked for.

        Raises:
            RefusedError: it may not be.
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
