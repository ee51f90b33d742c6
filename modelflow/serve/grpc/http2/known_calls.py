"""Heads of calls that have come before: a client sends the same one with every call.

What a head means depends on its headers alone, so that it need not be looked through again.
"""

from collections.abc import Hashable

from modelflow.serve.grpc.service import Method

__all__ = ["LONGEST", "KnownCalls"]

LONGEST = 2048
"""Bytes of the longest head that is kept, as HTTP/2 counts them."""

_MOST = 512  # heads that are kept: 1 MiB together


class KnownCalls:
    """The heads that the connections of a server have sent twice in a row. For its thread alone.

    Each of a call of one message and one answer, of which nothing is noted, and that needs no key;
    without its deadline, which differs each time.

    Attributes:
        known: What each calls: by the method of HTTP, the path and the headers.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, Method] = {}

    def learn(self, head: Hashable, method: Method) -> None:
        """Keeps a head. Where there are too many all are forgotten: those in use come again."""
        if len(self.known) >= _MOST:
            self.known.clear()
        self.known[head] = method
