"""Requests that are answered together with those that come at the same moment."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from modelflow.http.exchange import Exchange

__all__ = ["Gathering"]


class Gathering(Protocol):
    """Takes whole requests of one kind. For the server's thread.

    Sixty-four clients ask a model for a row each, in one turn of the loop: the connections put
    their requests in here, without a call for each, and when the turn is over all are read.

    Attributes:
        requests: Those that have come in this turn of the loop; to be appended to.
    """

    requests: list["Exchange"]

    def add(self, exchange: "Exchange") -> None:
        """Takes a request."""

    def begin(self) -> None:
        """Has `requests` answered when this turn of the loop is over; called for the first."""
