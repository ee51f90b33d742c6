"""A job: many items through a flow, so many of them under way at a time.

Items one to eight are sent; one and three are done. In their order one is given back, and nine is
sent; three waits for two. In any order three is given back as well, and ten is sent.
"""

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from modelflow.quantities import check_seconds
from modelflow.stream_io import answer_of
from modelflow.stream_io.request import Request, submit
from modelflow.stream_io.values import check_errors

if TYPE_CHECKING:
    from modelflow.runtime.scheduler import Scheduler

T = TypeVar("T")

_END = object()


@dataclass(frozen=True)
class MapOptions:
    """How a job is done; see `Flow.map`.

    Attributes:
        most: Items that are under way, or done and not given back, at most.
        is_ordered: They are given back in their order.
        is_raising: An item that fails ends the job; else its error is its result.
        deadline: Seconds from when an item is sent; None: any.
        single_outputs: Outputs of the graph that give one buffer for each that is sent.
    """

    most: int
    is_ordered: bool
    is_raising: bool
    deadline: float | None
    single_outputs: Collection[str]


class _Entry(Generic[T]):
    __slots__ = ("error", "is_over", "item", "request")

    def __init__(self, item: T) -> None:
        self.item = item
        self.is_over = False
        self.error: Exception | None = None
        self.request: Request | None = None


class ItemMap(Generic[T]):
    """Sends items as requests, and gives them back with what became of them; for one thread."""

    def __init__(
        self,
        scheduler: "Scheduler",
        columns: Callable[[T], Mapping[str, tuple[Any]]],
        options: MapOptions,
        on_change: Callable[[], None],
    ) -> None:
        """Begins with none.

        Args:
            scheduler: What they are sent to.
            columns: Gives the one value of each input of the graph; raises KeyError.
            options: How it is done.
            on_change: Called when `take` may have something to give, from any thread.
        """
        self._scheduler = scheduler
        self._columns = columns
        self._options = options
        self._on_change = on_change
        self._pending: dict[_Entry[T], None] = {}
        self._over: deque[_Entry[T]] = deque()
        self._unsent: Sequence[Request] = ()
        self._is_room_told = False

    @property
    def has_room(self) -> bool:
        """Tells whether one more item may be sent."""
        return len(self._pending) < self._options.most and not self._unsent

    @property
    def is_empty(self) -> bool:
        """Tells whether all that was sent was given back."""
        return not self._pending

    def send(self, item: T) -> None:
        """Sends an item on its way.

        Raises:
            StreamClosed: the flow does not run, or its graph has no input.
        """
        entry = _Entry(item)
        self._pending[entry] = None
        try:
            columns = self._columns(item)
        except KeyError as error:  # it does not fit the graph's inputs
            entry.error = error
            self._on_end(entry, None)
            return
        entry.request = Request(
            columns, partial(self._on_end, entry), deadline=self._options.deadline
        )
        self._unsent = submit(self._scheduler, [entry.request], self._room)

    def _on_end(self, entry: _Entry[T], _: Request | None) -> None:
        entry.is_over = True
        self._over.append(entry)
        self._on_change()

    def _room(self) -> None:
        self._is_room_told = True
        self._on_change()

    def take(self) -> tuple[T, Any] | None:
        """Gives an item back, with its answer or error; None: there is none now.

        Raises:
            Exception: the item's error, where that ends the job.
        """
        if self._is_room_told:
            self._is_room_told = False
            self._unsent = submit(self._scheduler, self._unsent, self._room)
        entry = self._next()
        if entry is None:
            self._scheduler.pump()  # within a callback of an inline flow `submit` runs nothing
            entry = self._next()
        if entry is None:
            return None
        del self._pending[entry]
        try:
            return entry.item, self._answer(entry)
        except Exception as error:
            if self._options.is_raising:
                raise
            return entry.item, error

    def _next(self) -> _Entry[T] | None:
        if not self._options.is_ordered:
            return self._over.popleft() if self._over else None
        self._over.clear()
        first = next(iter(self._pending), None)
        return first if first is not None and first.is_over else None

    def _answer(self, entry: _Entry[T]) -> Any:
        if entry.request is None:
            assert entry.error is not None  # else it would have been sent
            raise entry.error
        return answer_of(entry.request.answer(), self._options.single_outputs)

    def cancel(self) -> None:
        """Gives up what is under way."""
        for entry in self._pending:
            if entry.request is not None and not entry.is_over:
                entry.request.cancel()


def map_items(
    make: Callable[[Callable[[], None]], ItemMap[T]], items: Iterable[T]
) -> Iterator[Any]:
    """Does a job on the calling thread; see `Flow.map`."""
    changes: SimpleQueue[None] = SimpleQueue()
    job = make(partial(changes.put, None))
    source: Iterator[T] | None = iter(items)
    failure: Exception | None = None
    try:
        while True:
            while source is not None and job.has_room:
                try:
                    item = next(source)
                except StopIteration:
                    source = None
                except Exception as error:  # noqa: BLE001 - raised behind what was sent before
                    source, failure = None, error
                else:
                    job.send(item)
            found = job.take()
            if found is not None:
                yield found
            elif source is None and job.is_empty:
                break
            else:
                changes.get()
    finally:
        job.cancel()
    if failure is not None:
        raise failure


async def amap_items(
    make: Callable[[Callable[[], None]], ItemMap[T]], items: Iterable[T] | AsyncIterable[T]
) -> AsyncIterator[Any]:
    """Does a job without blocking the event loop; see `Flow.amap`."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    job = make(lambda: None if loop.is_closed() else _wake(loop, changed))
    following = _follower(items)
    upcoming: asyncio.Future[Any] | None = None
    is_done = False
    failure: Exception | None = None
    try:
        while True:
            if not is_done and upcoming is None and job.has_room:
                upcoming = asyncio.ensure_future(following())
            if upcoming is not None and upcoming.done():
                try:
                    item = upcoming.result()
                except Exception as error:  # noqa: BLE001 - raised behind what was sent before
                    item, failure = _END, error
                upcoming, is_done = None, item is _END
                if not is_done:
                    job.send(item)
                continue
            found = job.take()
            if found is not None:
                yield found
            elif is_done and job.is_empty:
                break
            else:
                changed.clear()  # what changes from here on sets it on this thread, later
                waits = [asyncio.ensure_future(changed.wait()), *([upcoming] if upcoming else ())]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waits[0].cancel()
    finally:
        job.cancel()
        if upcoming is not None:
            upcoming.cancel()
    if failure is not None:
        raise failure


def _wake(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(changed.set)
    except RuntimeError:  # it was closed just now: nobody waits
        if not loop.is_closed():
            raise


def _follower(items: Any) -> Callable[[], Any]:
    """Returns what gives the next item, or `_END`."""
    if isinstance(items, AsyncIterable):
        source = aiter(items)

        async def following() -> Any:
            return await anext(source, _END)

        return following
    plain = iter(cast("Iterable[Any]", items))

    async def next_one() -> Any:
        return next(plain, _END)

    return next_one


def options_of(
    most: int,
    *,
    ordered: bool,
    errors: Literal["raise", "return"],
    deadline: float | None,
    single_outputs: Collection[str],
) -> MapOptions:
    """Checks what a caller says of a job.

    Raises:
        TypeError: ``deadline`` is no number.
        ValueError: a value is out of its range.
    """
    if most < 1:
        raise ValueError(f"in_flight: got {most!r}; expected at least 1")
    check_errors(errors)
    if deadline is not None:
        deadline = check_seconds("deadline", deadline)
    return MapOptions(most, ordered, errors == "raise", deadline, single_outputs)
