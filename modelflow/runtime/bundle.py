"""A bundle: requests of one row each that travel as one session, and do not wait for each other.

Thirty-two requests of one image are one session with thirty-two rows, in a graph through which
every row passes by itself (`Origin.is_row_by_row`). They are cut into batches like any rows, have
no order to keep, and whatever comes out is handed to its request at once, by its position: what is
slow, late, wrong or given up holds up no other. What a session costs, the bundle costs once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from modelflow.buffer import Buffer
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import call_each

__all__ = ["Bundle", "Passenger"]

_RAISED = "a callback for the end of a request raised"


class Passenger(Protocol):
    """Who waits for what becomes of one row."""

    def arrived(self, found: dict[str, list[Buffer]]) -> None:
        """Takes what came out of each output; once, with no lock held."""

    def failed(self, failure: Exception) -> None:
        """Notes that nothing comes any more; instead of `arrived`."""


class Bundle:
    """The requests of a session whose rows are one each. Safe from any thread."""

    gone: set[int]
    """The positions that nobody waits for any more."""

    def __init__(self, terminals: int) -> None:
        """Begins empty.

        Args:
            terminals: At how many places each row leaves the graph: outputs and other last nodes.
        """
        self.gone = set()
        self._terminals = terminals
        self._lock = make_lock("bundle")
        self._waiting: list[Passenger | None] = []
        self._left: dict[str, int] = {}
        # Of several terminals: what has come of each row, and how many lack.
        self._found: list[dict[str, list[Buffer]]] = []
        self._lacking: list[int] = []
        self._due: deque[Callable[[], None]] = deque()

    def board(self, passengers: Iterable[Passenger]) -> None:
        """Takes who waits for the rows, in order; before any of them is in the graph."""
        with self._lock:
            self._waiting = [*passengers]
            size = len(self._waiting)
            if self._terminals > 1:
                self._found = [{} for _ in range(size)]
                self._lacking = [self._terminals] * size

    def put(
        self, terminal: str, positions: Sequence[int], buffers: Sequence[Buffer], is_output: bool
    ) -> bool:
        """Notes rows that have come to a terminal; `call_due` belongs behind it.

        Returns:
            True: they were the last ones there.
        """
        with self._lock:
            waiting, due = self._waiting, self._due
            left = self._left.get(terminal, len(waiting)) - len(positions)
            self._left[terminal] = left
            if self._terminals == 1:
                for position, buffer in zip(positions, buffers, strict=True):
                    passenger = waiting[position]
                    if passenger is not None:
                        waiting[position] = None
                        found = {terminal: [buffer]} if is_output else {}
                        due.append(partial(passenger.arrived, found))
            else:
                self._put(terminal, positions, buffers, is_output)
        return not left

    def _put(
        self, terminal: str, positions: Sequence[int], buffers: Sequence[Buffer], is_output: bool
    ) -> None:
        """As `put` for one terminal of several: a request is over when all have its row."""
        for position, buffer in zip(positions, buffers, strict=True):
            found = self._found[position]
            if is_output:
                found[terminal] = [buffer]
            self._lacking[position] -= 1
            passenger = self._waiting[position]
            if passenger is not None and not self._lacking[position]:
                self._waiting[position] = None
                self._due.append(partial(passenger.arrived, found))

    def call_due(self) -> None:
        """Tells those whose rows have come; with no lock held."""
        call_each(self._due, _RAISED)

    def leave(self, position: int, failure: Exception) -> None:
        """Gives up a row: it is worked on no more, and its request is told at once.

        Does nothing where the request is over.
        """
        with self._lock:
            passenger, self._waiting[position] = self._waiting[position], None
            if passenger is None:
                return
            self.gone.add(position)
            self._due.append(partial(passenger.failed, failure))
        self.call_due()

    def fail(self, failure: Exception) -> None:
        """Ends every request that is not over."""
        with self._lock:
            for passenger in self._waiting:
                if passenger is not None:
                    self._due.append(partial(passenger.failed, failure))
            self._waiting = [None] * len(self._waiting)
        self.call_due()
