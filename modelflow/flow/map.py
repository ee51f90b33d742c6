"""The loop behind `Flow.map`: sends many items, with a limit on the items in flight.

Example with a limit of eight: items one to eight are sent, and items one and three are done. If
ordered, item one is yielded and nine is sent, but item three waits for two. If not ordered, item
three is yielded as well, and ten is sent.
"""

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
    import asyncio

    from modelflow.runtime.scheduler import Scheduler

T = TypeVar("T")

_END = object()


@dataclass(frozen=True)
class MapOptions:
    """The options of a job; see `Flow.map`.

    Attributes:
        most: The most items that are in flight, or done and not yet yielded.
        is_ordered: True to yield the items in their order.
        is_raising: True if an item that fails ends the job. Otherwise its error is its result.
        deadline: Seconds after an item was sent, or None for no deadline.
        single_outputs: The outputs of the graph with one buffer for each input buffer.
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
    """A set of items in flight: sends items as requests, and returns items with their answers.

    For use by one thread.
    """

    def __init__(
        self,
        scheduler: "Scheduler",
        columns: Callable[[T], Mapping[str, tuple[Any]]],
        options: MapOptions,
        on_change: Callable[[], None],
    ) -> None:
        """Starts without items.

        Args:
            scheduler: The scheduler of the flow.
            columns: Returns the value of each input of the graph for an item; raises KeyError.
            options: The options of the job.
            on_change: Called from any thread when `take` may have an item to return.
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
        """Returns whether another item may be sent."""
        return len(self._pending) < self._options.most and not self._unsent

    @property
    def is_empty(self) -> bool:
        """Returns whether `take` has returned every item that was sent."""
        return not self._pending

    def send(self, item: T) -> None:
        """Sends an item as a request.

        Raises:
            StreamClosed: The flow does not run, or its graph has no input.
        """
        entry = _Entry(item)
        self._pending[entry] = None
        try:
            columns = self._columns(item)
        except KeyError as error:  # the item does not fit the inputs of the graph
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
        """Returns a finished item with its answer or error, or None if no item is ready.

        Raises:
            Exception: The error of the item, if ``is_raising``.
        """
        if self._is_room_told:
            self._is_room_told = False
            self._unsent = submit(self._scheduler, self._unsent, self._room)
        entry = self._next()
        if entry is None:
            # `submit` runs no unit if it is called within a callback of an inline flow
            self._scheduler.pump()
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
            assert entry.error is not None  # otherwise `send` would have made a request
            raise entry.error
        return answer_of(entry.request.answer(), self._options.single_outputs)

    def cancel(self) -> None:
        """Cancels all items in flight."""
        for entry in self._pending:
            if entry.request is not None and not entry.is_over:
                entry.request.cancel()


def map_items(
    make: Callable[[Callable[[], None]], ItemMap[T]], items: Iterable[T]
) -> Iterator[Any]:
    """Yields items with their answers on the calling thread; see `Flow.map`."""
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
                except Exception as error:  # noqa: BLE001 - raised after earlier answers
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
    """Yields items with their answers without blocking the event loop; see `Flow.amap`."""
    import asyncio  # not at the top: it takes a third of the import time of Flow

    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    following = _follower(items)
    job = make(lambda: None if loop.is_closed() else _wake(loop, changed))
    upcoming: asyncio.Future[Any] | None = None
    is_done, failure = False, None
    try:
        while True:
            if not is_done and upcoming is None and job.has_room:
                upcoming = asyncio.ensure_future(following())
            if upcoming is not None and upcoming.done():
                try:
                    item = upcoming.result()
                except Exception as error:  # noqa: BLE001 - raised after earlier answers
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
                # `_wake` sets the event on this thread, so a change after this line is not missed
                changed.clear()
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


def _wake(loop: "asyncio.AbstractEventLoop", changed: "asyncio.Event") -> None:
    try:
        loop.call_soon_threadsafe(changed.set)
    except RuntimeError:  # the loop was closed meanwhile, and no task waits
        if not loop.is_closed():
            raise


def _follower(items: Any) -> Callable[[], Any]:
    """Returns a function that returns the next item, or `_END`."""
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
    """Returns the options of a job after a check of their values.

    Raises:
        TypeError: ``deadline`` is no number.
        ValueError: A value is out of its range.
    """
    if most < 1:
        raise ValueError(f"in_flight: got {most!r}; expected at least 1")
    check_errors(errors)
    if deadline is not None:
        deadline = check_seconds("deadline", deadline)
    return MapOptions(most, ordered, errors == "raise", deadline, single_outputs)
