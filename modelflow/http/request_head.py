"""The head of a request, as it was read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelflow.http.gathering import Gathering

__all__ = ["RequestHead"]


class RequestHead:
    """What a request says before its body. A client sends the same one with every request.

    Attributes:
        method: ``GET``, ``POST``, ...
        target: What was asked for: path and query, as sent; see `modelflow.http.target`.
        headers: Names in lower case, and values, in the order in which they came.
        named: The same by name; of several of one name the last.
        route: What whoever handles requests has found out from the head alone; None: nothing yet.
        gathering: Where its requests may go once they are whole, instead of to who handles them.
    """

    __slots__ = ("gathering", "headers", "method", "named", "route", "target")

    def __init__(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Takes what was read."""
        self.method = method
        self.target = target
        self.headers = headers
        self.named: Mapping[bytes, bytes] = dict(headers)
        self.route: Any = None
        self.gathering: Gathering | None = None
