"""A request batch: requests that travel as one session, and do not wait for each other.

Thirty-two requests of an image or two are one session with forty rows, in a graph through which
every row passes by itself (`Origin.is_row_by_row`). They are cut into batches like any rows and
have no order to keep. A request is handed what came out as soon as all its own rows are there: what
is slow, late, wrong or given up holds up no other. What a session costs, the request batch costs
once.
"""

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

_NOTHING = Buffer(None)  # of a row that has not come


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

    def __init__(self, terminals: int, outputs: Sequence[str]) -> None:
        """Begins empty.

        Args:
            terminals: At how many places each row leaves the graph: outputs and other last nodes.
            outputs: Those of them that are outputs, in the order in which results name them.
        """
        self.gone = set()
        self._terminals = terminals
        self._outputs = outputs
        self._lock = make_lock("request batch")
        self._bounds: Sequence[int] = (0,)  # where the rows of each request begin, and their end
        self._owners: Sequence[int] = ()  # the request of each row
        self._waiting: set[int] = set()
        self._left: dict[str, int] = {}
        # Where a request is more than a row at one terminal: how much of each lacks, and what has
        # come to each output, by position.
        self._lacking: list[int] = []
        self._columns: dict[str, list[Buffer]] = {}
        self._due: deque[Callable[[], None]] = deque()

    @property
    def size(self) -> int:
        """How many requests it has carried."""
        return len(self._bounds) - 1

    def board(self, batch_members: BatchMembers, sizes: Sequence[int]) -> None:
        """Takes who waits for so many rows each; before any of them is in the graph."""
        requests = range(len(sizes))
        with self._lock:
            self._batch_members = batch_members
            self._waiting = set(requests)
            self._bounds = [*accumulate(sizes, initial=0)]
            self._owners = requests
            if self._bounds[-1] > len(sizes):
                self._owners = [request for request in requests for _ in range(sizes[request])]
            if self._terminals > 1 or self._owners is not requests:
                self._lacking = [self._terminals * size for size in sizes]

    def request_at(self, position: int) -> int:
        """Returns which request a row belongs to."""
        return self._owners[position]

    def put(
        self, terminal: str, positions: Sequence[int], buffers: Sequence[Buffer], is_output: bool
    ) -> bool:
        """Notes rows that have come to a terminal; `call_due` belongs behind it.

        Returns:
            True: they were the last ones there.
        """
        with self._lock:
            left = self._left.get(terminal, len(self._owners)) - len(positions)
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
        whole, lacking, owners = [], self._lacking, self._owners
        if is_output and terminal not in self._columns:
            self._columns[terminal] = [_NOTHING] * len(owners)
        column = self._columns[terminal] if is_output else None
        # Rows that follow each other are noted as one: a batch that has lost none is one such run.
        runs = [positions] if isinstance(positions, range) else [range(p, p + 1) for p in positions]
        first = 0
        for run in runs:
            at, end = run.start, run.stop
            if column is not None:
                column[at:end] = buffers[first : first + end - at]
            first += end - at
            while at < end:
                request = owners[at]
                behind = min(end, self._bounds[request + 1])
                lacking[request] -= behind - at
                if not lacking[request] and request in self._waiting:
                    whole.append(request)
                at = behind
        if whole:
            self._arrive(whole, {name: self._take(name, whole) for name in self._outputs})

    def _take(self, output: str, requests: Sequence[int]) -> list[Buffer]:
        """Returns what has come of these requests, and keeps it no longer."""
        column, taken = self._columns[output], []
        for request in requests:
            start, end = self._bounds[request : request + 2]
            taken += column[start:end]
            column[start:end] = [_NOTHING] * (end - start)
        return taken

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
            self.gone.update(range(*self._bounds[request : request + 2]))
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
