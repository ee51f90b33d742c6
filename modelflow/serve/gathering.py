"""Requests of one turn of the server's loop for one model, which it takes together."""

import asyncio
from collections.abc import Mapping

from modelflow.http.exchange import Exchange
from modelflow.serve.refusal import refusal_of
from modelflow.serve.repository.models import Models
from modelflow.serve.row_reader import RowReader

__all__ = ["RowGathering"]


class RowGathering:
    """Small requests of one path, a `modelflow.http.gathering.Gathering`. For the server's thread.

    Attributes:
        requests: Those that have come in this turn of the loop.
    """

    def __init__(self, models: Models, path: Mapping[str, str], reader: RowReader) -> None:
        """Takes what is served, what the path names of it, and what reads the requests."""
        self.requests: list[Exchange] = []
        self._models = models
        self._path = path
        self._reader = reader

    def begin(self) -> None:
        """Has `requests` read when this turn of the loop is over; called for the first."""
        asyncio.get_running_loop().call_soon(self._end)

    def add(self, exchange: Exchange) -> None:
        """Takes a request."""
        if not self.requests:
            self.begin()
        self.requests.append(exchange)

    def _end(self) -> None:
        requests, self.requests = self.requests, []
        requests = [exchange for exchange in requests if not exchange.is_over]
        try:
            model = self._models.find(**self._path)
            model.receive(requests, self._reader)
        except Exception as error:  # noqa: BLE001 - of whatever kind, nobody is left waiting
            reply = refusal_of(error)
            for exchange in requests:
                exchange.answer(reply)
