"""Who may see the pages: whoever has the token, from a page of this server alone.

A page of another site that the same browser has open can send requests here, but it cannot know the
token, its ``Origin`` is another, and a name that it has bound to this address is no ``Host`` here.
"""

import hmac
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import parse_qs

from modelflow.http.reply import RefusedError, Reply, reply_of_status
from modelflow.http.request import RequestHead
from modelflow.studio.pages import HEADERS

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
