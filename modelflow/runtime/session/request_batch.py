"""A request batch: requests of one row each that travel as one session, and do not wait for each
other.

Thirty-two requests of one image are one session with thirty-two rows, in a graph through which
every row passes by itself (`Origin.is_row_by_row`). They are cut into batches like any rows, have
no order to keep, and whatever comes out is handed to its request at once, by its position: what is
slow, late, wrong or given up holds up no other. What a session costs, the request batch costs once.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from modelflow.buffer import Buffer
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import call_each

RAISED = "a callback for the end of a request raised"
"""What is logged where who waited for a request raises."""


class BatchMembers(Protocol):
    """Who waits for what becomes of the rows. Each row is told of once, with no lock held."""

    def on_result(self, positions: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        """Takes what came out of each output: of each of these rows one buffer, in their order."""

    def on_failure(self, positions: Sequence[int], failure: Exception) -> None:
        """Notes that nothing comes any more of these; instead of `on_result`."""


class RequestBatch:
    """The requests of a session whose rows are one each. Safe from any thread."""

    gone: set[int]
    """The positions that nobody waits for any more."""
    _batch_members: BatchMembers

    def __init__(self, terminals: int) -> None:
        """Begins empty.

        Args:
            terminals: At how many places each row leaves the graph: outputs and other last nodes.
        """
        self.gone = set()
        self._terminals = terminals
        self._lock = make_lock("bundle")
        self._size = 0
        self._waiting: set[int] = set()
        self._left: dict[str, int] = {}
        # Of several terminals: what has come of each row, and how many lack.
        self._found: list[dict[str, Buffer]] = []
        self._lacking: list[int] = []
        self._due: deque[Callable[[], None]] = deque()

    @property
    def size(self) -> int:
        """How many requests it has carried."""
        return self._size

    def board(self, batch_members: BatchMembers, size: int) -> None:
        """Takes who waits for so many rows; before any of them is in the graph."""
        with self._lock:
            self._batch_members, self._size = batch_members, size
            self._waiting = set(range(size))
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
            left = self._left.get(terminal, self._size) - len(positions)
            self._left[terminal] = left
            if self._terminals > 1:
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
        """As `put` for one terminal of several: a request is over when all have its row."""
        whole = []
        for position, buffer in zip(positions, buffers, strict=True):
            if is_output:
                self._found[position][terminal] = buffer
            self._lacking[position] -= 1
            if not self._lacking[position] and position in self._waiting:
                whole.append(position)
        if whole:
            names = self._found[whole[0]]
            found = {name: [self._found[position][name] for position in whole] for name in names}
            self._arrive(whole, found)

    def _arrive(self, positions: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        if positions:
            self._waiting.difference_update(positions)
            self._due.append(partial(self._batch_members.on_result, positions, found))
            self._let_go()

    def _let_go(self) -> None:
        """Forgets who waits where nobody does any more: they may know the request batch, too."""
        if not self._waiting:
            del self._batch_members

    def call_due(self) -> None:
        """Tells of the rows that have come; with no lock held."""
        call_each(self._due, RAISED)

    def leave(self, position: int, failure: Exception) -> None:
        """Gives up a row: it is worked on no more, and its request is told at once.

        Does nothing where the request is over.
        """
        with self._lock:
            if position not in self._waiting:
                return
            self._waiting.remove(position)
            self.gone.add(position)
            self._due.append(partial(self._batch_members.on_failure, (position,), failure))
            self._let_go()
        self.call_due()

    def fail(self, failure: Exception) -> None:
        """Ends every request that is not over."""
        with self._lock:
            positions = sorted(self._waiting)
            self._waiting.clear()
            if positions:
                self._due.append(partial(self._batch_members.on_failure, positions, failure))
                self._let_go()
        self.call_due()
