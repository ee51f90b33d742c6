"""A request batch: requests that share a session, and do not wait for each other.

Example: thirty-two requests with one or two images each are one session with forty rows. Every row
passes the graph independently (`Origin.is_row_by_row`). Nodes cut the rows into batches like any
other rows, and the rows have no order. A request gets its results as soon as all of its own rows
are ready. A slow, late, wrong or cancelled request delays no other request. The cost of a session
arises once for the whole request batch.
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
"""The log message for a callback of a request that raises."""

_NOTHING = Buffer(None)  # the place of a row that has not arrived


class BatchMembers(Protocol):
    """The receiver of the results of the requests.

    Each request is reported once, with no lock held.
    """

    def on_result(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        """Receives the buffers of each output, with a buffer for each row of these requests."""

    def on_failure(self, requests: Sequence[int], failure: Exception) -> None:
        """Receives the failure of these requests. Called instead of `on_result`."""


class RequestBatch:
    """The requests of a session, with consecutive rows for each request. Thread-safe."""

    gone: set[int]
    """The positions of the rows of cancelled requests."""
    _batch_members: BatchMembers

    def __init__(self, terminals: int, outputs: Sequence[str]) -> None:
        """Starts empty.

        Args:
            terminals: The number of places where each row leaves the graph: outputs and other last
                nodes.
            outputs: The terminals that are outputs, in the order of the results.
        """
        self.gone = set()
        self._terminals = terminals
        self._outputs = outputs
        self._lock = make_lock("request batch")
        # the position of the first row of each request, and the end
        self._bounds: Sequence[int] = (0,)
        self._owners: Sequence[int] = ()  # the request of each row
        self._waiting: set[int] = set()
        self._left: dict[str, int] = {}
        # Used only if a request has several rows, or the graph several terminals. Holds the number
        # of missing rows of each request, and the buffers of each output by position.
        self._lacking: list[int] = []
        self._columns: dict[str, list[Buffer]] = {}
        self._due: deque[Callable[[], None]] = deque()

    @property
    def size(self) -> int:
        """The number of requests of the batch, including ended requests."""
        return len(self._bounds) - 1

    def board(self, batch_members: BatchMembers, sizes: Sequence[int]) -> None:
        """Registers the receiver and the row counts of the requests.

        Call this before any row enters the graph.
        """
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
        """Returns the number of the request that a row belongs to."""
        return self._owners[position]

    def put(
        self, terminal: str, positions: Sequence[int], buffers: Sequence[Buffer], is_output: bool
    ) -> bool:
        """Stores rows that have arrived at a terminal. Call `call_due` afterwards.

        Returns:
            True if they were the last rows at that terminal.
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
        """Stores rows of requests with several rows or terminals, and ends complete requests."""
        whole, lacking, owners = [], self._lacking, self._owners
        if is_output and terminal not in self._columns:
            self._columns[terminal] = [_NOTHING] * len(owners)
        column = self._columns[terminal] if is_output else None
        # Consecutive rows are stored as one run. A batch without lost rows is a single run.
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
        """Removes and returns the buffers of these requests at an output."""
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
        """Removes the receiver after the last request, because the two may refer to each other."""
        if not self._waiting:
            del self._batch_members

    def call_due(self) -> None:
        """Reports the complete requests to the receiver. The caller must hold no lock."""
        call_each(self._due, RAISED)

    def leave(self, request: int, failure: Exception) -> None:
        """Cancels a request: units skip its rows, and the receiver gets the failure immediately.

        Does nothing if the request has ended.
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
        """Reports a failure for every request that has not ended."""
        with self._lock:
            requests = sorted(self._waiting)
            self._waiting.clear()
            if requests:
                self._due.append(partial(self._batch_members.on_failure, requests, failure))
                self._let_go()
        self.call_due()
