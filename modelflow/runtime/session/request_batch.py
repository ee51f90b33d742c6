"""A request batch: requests that travel as one session, and do not wait for each other.

Thirty-two requests of an image or two are one session with forty rows, in a graph through which
every row passes by itself (`Origin.is_row_by_row`). They are cut into batches like any rows and
have no order to keep. A request is handed what came out as soon as all its own rows are there: what
is slow, late, wrong or given up holds up no other. What a session costs, the request batch costs
once.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Protocol

from modelflow.buffer import Buffer
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import call_each

RAISED = "a callback for the end of a request raised"
"""What is logged where who waited for a request raises."""


class BatchMembers(Protocol):
    """Who waits for what becomes of the requests. Each is told of once, with no lock held."""

    def on_result(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        """Takes what came out of each output: a buffer for each row of these requests, in order."""

    def on_failure(self, requests: Sequence[int], failure: Exception) -> None:
        """Notes that nothing comes any more of these; instead of `on_result`."""


class RequestBatch:
    """The requests of a session: each has the rows behind those of the one before. Thread-safe."""

    gone: set[int]
    """The positions of rows that nobody waits for any more."""
    _batch_members: BatchMembers

    def __init__(self, terminals: int) -> None:
        """Begins empty.

        Args:
            terminals: At how many places each row leaves the graph: outputs and other last nodes.
        """
        self.gone = set()
        self._terminals = terminals
        self._lock = make_lock("bundle")
        self._firsts: Sequence[int] = ()  # where the rows of each request begin
        self._rows = 0
        self._waiting: set[int] = set()
        self._left: dict[str, int] = {}
        # Where a request is more than a row at one terminal: what has come of it, by its place
        # among its rows, and how much lacks.
        self._found: dict[int, dict[str, dict[int, Buffer]]] = {}
        self._lacking: list[int] = []
        self._due: deque[Callable[[], None]] = deque()

    @property
    def size(self) -> int:
        """How many requests it has carried."""
        return len(self._firsts)

    def board(self, batch_members: BatchMembers, sizes: Sequence[int]) -> None:
        """Takes who waits for so many rows each; before any of them is in the graph."""
        *firsts, rows = accumulate(sizes, initial=0)
        with self._lock:
            self._batch_members, self._rows = batch_members, rows
            self._firsts = range(rows) if rows == len(sizes) else firsts
            self._waiting = set(range(len(sizes)))
            if self._terminals > 1 or rows > len(sizes):
                self._found = {request: {} for request in self._waiting}
                self._lacking = [self._terminals * size for size in sizes]

    def request_at(self, position: int) -> int:
        """Returns which request a row belongs to."""
        return bisect_right(self._firsts, position) - 1

    def put(
        self, terminal: str, positions: Sequence[int], buffers: Sequence[Buffer], is_output: bool
    ) -> bool:
        """Notes rows that have come to a terminal; `call_due` belongs behind it.

        Returns:
            True: they were the last ones there.
        """
        with self._lock:
            left = self._left.get(terminal, self._rows) - len(positions)
            self._left[terminal] = left
            if self._lacking:
                self._put(terminal, positions, buffers, is_output)
            elif self._waiting.issuperset(positions):
                self._arrive(positions, {terminal: buffers} if is_output else {})
            else:
                kept = [place for place, at in enumerate(positions) if at in self._waiting]
                found = {terminal: [buffers[place] for place in kept]} if is_output else {}
                self._arrive([positions[place] for place in kept], found)
        return not left

    def _put(
        self, terminal: str, positions: Sequence[int], buffers: Sequence[Buffer], is_output: bool
    ) -> None:
        """As `put` for one part of several: a request is over when all have come."""
        whole = []
        for position, buffer in zip(positions, buffers, strict=True):
            request = self.request_at(position)
            if request not in self._waiting:
                continue
            if is_output:
                self._found[request].setdefault(terminal, {})[position] = buffer
            self._lacking[request] -= 1
            if not self._lacking[request]:
                whole.append(request)
        if whole:
            parts = [self._found.pop(request) for request in whole]
            found = {
                name: [rows[name][position] for rows in parts for position in sorted(rows[name])]
                for name in parts[0]
            }
            self._arrive(whole, found)

    def _arrive(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        if requests:
            self._waiting.difference_update(requests)
            self._due.append(partial(self._batch_members.on_result, requests, found))
            self._let_go()

    def _let_go(self) -> None:
        """Forgets who waits where nobody does any more: they may know the request batch, too."""
        if not self._waiting:
            del self._batch_members

    def call_due(self) -> None:
        """Tells of the requests that are whole; with no lock held."""
        call_each(self._due, RAISED)

    def leave(self, request: int, failure: Exception) -> None:
        """Gives up a request: it is worked on no more, and who waits is told at once.

        Does nothing where the request is over.
        """
        with self._lock:
            if request not in self._waiting:
                return
            self._waiting.remove(request)
            self._found.pop(request, None)
            end = self._firsts[request + 1] if request + 1 < self.size else self._rows
            self.gone.update(range(self._firsts[request], end))
            self._due.append(partial(self._batch_members.on_failure, (request,), failure))
            self._let_go()
        self.call_due()

    def fail(self, failure: Exception) -> None:
        """Ends every request that is not over."""
        with self._lock:
            requests = sorted(self._waiting)
            self._waiting.clear()
            if requests:
                self._due.append(partial(self._batch_members.on_failure, requests, failure))
                self._let_go()
        self.call_due()
