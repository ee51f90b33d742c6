"""A request as a whole: all its values at once, its answer by a callback."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, EndOfStream
from modelflow.quantities import check_seconds
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.entry.request_group import SessionEntry
from modelflow.runtime.session.request_batch import RAISED, BatchMembers
from modelflow.runtime.waiting import call_each
from modelflow.stream_io import unwrap_output, wrap_input

if TYPE_CHECKING:
    from modelflow.runtime.queues.backpressure import Backpressure
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.runtime.session.session import Session
    from modelflow.runtime.session.watcher import Watcher


class Request:
    """One request, for `submit`, that no thread waits for and that waits for no other.

    What servers are made of: requests that came together go in together, and whoever finishes one
    calls ``on_end``.
    """

    __slots__ = (
        "_context",
        "_due",
        "_entry",
        "_failure",
        "_found",
        "_is_cancelled",
        "_on_end",
        "_on_result",
        "_open",
        "_place",
        "_rows",
        "_scheduler",
        "_session",
        "_watcher",
        "inputs",
        "is_batchable",
        "size",
    )

    inputs: Mapping[str, Sequence[Any]]
    """The values for each input."""

    def __init__(
        self,
        inputs: Mapping[str, Sequence[Any]],
        on_end: Callable[["Request"], None],
        *,
        deadline: float | None = None,
        context: Mapping[str, Any] | None = None,
        on_result: Callable[["Request"], None] | None = None,
    ) -> None:
        """Makes a request that no flow has yet.

        Args:
            inputs: The values for each input of the graph: one a buffer.
            on_end: Called once, with the request, when `answer` would not wait: when everything has
                come out, the request was cancelled, or the flow has ended. On the thread that
                brought it about, which it must not hold up.
            deadline: Seconds from now after which nothing is computed for it any more.
            context: First content of the dict that the session's units share.
            on_result: Makes it a stream: called with the request when `next_result` has something
                to give, or an error to raise; again only behind a `next_result` that had nothing.
                On the thread that brought it about. What is not taken keeps back stream units
                that make more of it (``results_bound``).

        Raises:
            TypeError, ValueError: ``deadline`` is no number.
        """
        self.inputs = inputs
        self._on_end: Callable[[Request], None] | None = on_end
        self._on_result = on_result
        self._open: list[str] = []  # a stream's outputs that have not ended
        self._due: float | None = None
        if deadline is not None:
            self._due = SYSTEM_CLOCK.now() + check_seconds("deadline", deadline)
        self._context = context
        self._is_cancelled = False
        self._entry: SessionEntry | None = None  # made, and then there was no room for it
        # Of one in a request batch: its place, and what has become of it.
        self._place: tuple[SubmittedRows, int] | None = None
        self._found: dict[str, list[Buffer]] | None = None
        self._failure: Exception | None = None
        self._rows: list[Buffer] | None = None
        self.size = max(map(len, inputs.values()), default=0)
        """How many values it has, for the input that has the most."""
        self.is_batchable = len(inputs) == 1 and self.size > 0 and on_result is None
        """It can travel in a request batch: values for one input, and no stream."""
        self._scheduler: Scheduler | None = None
        self._session: Session | None = None
        self._watcher: Watcher | None = None

    def watch(self, watcher: "Watcher") -> None:
        """Has somebody told of every batch that its rows are in; before it is submitted.

        It travels in no request batch then.
        """
        self._watcher = watcher
        self.is_batchable = False

    @property
    def is_submitted(self) -> bool:
        """Tells whether a flow has it, or was asked to take it."""
        return self._session is not None or self._place is not None

    def begin(self, scheduler: "Scheduler", session: "Session") -> None:
        """Gives it the session that it is to be (called by `Flow`)."""
        self._scheduler, self._session = scheduler, session
        self.is_batchable = False  # any more
        session.progress.is_collected = self._on_result is None
        if self._context:
            session.context.update(self._context)
        if self._watcher is not None:
            scheduler.is_watched = True
            session.watch(self._watcher)
        session.on_end(self._finish)
        if self._on_result is not None:
            self._open = list(session.results)
            self._wait_for_results(session)
        if self._is_cancelled:
            scheduler.cancel(session)

    def rows(self) -> list[Buffer]:
        """Returns what it brings into a request batch (called by `submit`, perhaps again)."""
        if self._rows is None:
            (values,) = self.inputs.values()
            self._rows = [*map(wrap_input, values)]
            for row in self._rows:
                row._deadline = self._due
        return self._rows

    def on_result(self, found: dict[str, list[Buffer]]) -> None:
        """Takes what has become of its rows, which were in a request batch."""
        self._found = found
        self._finish()

    def on_failure(self, failure: Exception) -> None:
        """Takes why nothing comes any more of its rows."""
        self._failure = failure
        self._finish()

    def entry(self) -> SessionEntry:
        """Returns what goes into the graph (called by `submit`)."""
        assert self._session is not None  # `begin` was called
        if self._entry is not None:
            kept, self._entry = self._entry, None
            return kept
        columns = {name: [*map(wrap_input, values)] for name, values in self.inputs.items()}
        return SessionEntry(self._session, columns, self._due)

    def _finish(self) -> None:
        # What is to be called often leads here again, and to all that the request holds: the two
        # would be left to the collector of cycles.
        on_end, self._on_end = self._on_end, None
        assert on_end is not None  # a request ends once
        on_end(self)

    def _wait_for_results(self, session: "Session") -> None:
        for output in self._open:
            results = session.results[output]
            results.forget(self._came)  # else each look would leave another
            results.on_ready(self._came)

    def _came(self) -> None:
        assert self._on_result is not None  # only a stream waits for results
        self._on_result(self)

    def cancel(self) -> None:
        """Ends it at once: what is queued for it is dropped, `answer` raises `Cancelled`."""
        self._is_cancelled = True
        if self._place is not None:
            submitted, number = self._place
            submitted.cancel(number)
        elif self._scheduler is not None and self._session is not None:
            self._scheduler.cancel(self._session)

    def next_result(self) -> tuple[str, Buffer] | None:
        """Returns a buffer that has come out of an output, with its name; of a stream alone.

        Perhaps in error. None: there is none now, and ``on_result`` is called when there is.

        Raises:
            EndOfStream: everything was given.
            Cancelled: it was cancelled.
            StreamClosed: the flow was stopped, or failed.
        """
        session = self._session
        if session is None:
            return None
        for output in tuple(self._open):
            try:
                buffer = session.results[output].get_nowait()
            except EndOfStream:
                self._open.remove(output)
                continue
            if buffer is not None:
                self._open.append(self._open.pop(self._open.index(output)))  # they take turns
                session.progress.took()
                return output, unwrap_output(buffer)
        if not self._open:
            raise EndOfStream("everything has come out")
        self._wait_for_results(session)
        return None

    @property
    def is_drained(self) -> bool:
        """Tells whether `next_result` has given everything, as far as is known now."""
        session = self._session
        if session is None:
            return False
        found = [session.results[output] for output in self._open]
        return all(results.is_ended and not len(results) for results in found)

    def answer(self) -> dict[str, list[Buffer]]:
        """Returns what came out of each output, some perhaps in error; once, after ``on_end``.

        Raises:
            Cancelled: it was cancelled.
            StreamClosed: the flow was stopped, or failed.
            TimeoutError: it is not over yet.
        """
        if self._session is not None:
            return {
                output: [*map(unwrap_output, results.get_all(SYSTEM_CLOCK, 0.0))]
                for output, results in self._session.results.items()
            }
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # all of a request batch have the same
        if self._found is None:
            what = "submitted" if self._place is None else "over"
            raise TimeoutError(f"the request is not {what} yet")
        for buffers in self._found.values():
            for buffer in buffers:
                unwrap_output(buffer)
        return self._found


def submit(
    scheduler: "Scheduler",
    requests: Sequence[Request],
    on_room: Callable[[], None] | None = None,
) -> Sequence[Request]:
    """Sends whole requests together, under one lock and with one wake-up; waits for nothing.

    None waits for another, each has its own deadline, error and cancel. Their answers come by their
    callbacks, in any order. In a graph of normal units they share a session.

    Args:
        scheduler: `Flow.scheduler`.
        requests: Not submitted yet, or returned by an earlier call. Whoever has many that wait
            offers no more than the ``free_rows`` of the scheduler's ``submitter``.
        on_room: Called once if some are returned, when there may be room for them.

    Returns:
        Those behind which there was no room, to be submitted again, in order.

    Raises:
        KeyError: a request has an input that the graph has not; none has gone in.
        StreamClosed: the flow does not run, or its graph has no input.
    """
    submitter = scheduler.submitter
    for request in requests:
        if not submitter.names >= request.inputs.keys():
            for name in request.inputs:
                submitter.port(name)
    enter = _submit_mixed if scheduler.is_row_by_row else _submit_sessions
    count, backpressure = enter(scheduler, requests)
    _go_on(scheduler, backpressure, on_room)
    return requests[count:]


def _go_on(
    scheduler: "Scheduler", backpressure: "Backpressure | None", on_room: Callable[[], None] | None
) -> None:
    """Works on what was submitted, if the flow is inline, and has who found no room told of it."""
    scheduler.pump(is_awaited=False)
    if backpressure is not None and on_room is not None:
        backpressure.on_gone(on_room)


def _submit_mixed(
    scheduler: "Scheduler", requests: Sequence[Request]
) -> tuple[int, "Backpressure | None"]:
    """Sends those that can in request batches, the others as sessions.

    Returns:
        How many are in, and what keeps the next one out; None: all are.
    """
    done = 0
    for is_batchable, run in groupby(requests, _IS_BATCHABLE):
        enter = _submit_request_batch if is_batchable else _submit_sessions
        count, backpressure = enter(scheduler, list(run))
        done += count
        if backpressure is not None:
            return done, backpressure
    return done, None


_IS_BATCHABLE = attrgetter("is_batchable")


class _BatchedRequests:
    """The requests of a request batch, each of which is told of its own rows alone."""

    def __init__(self, requests: Sequence[Request], sizes: Sequence[int]) -> None:
        self._requests = requests
        self._sizes = sizes

    def on_result(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        due: deque[Callable[[], None]] = deque()
        end = 0
        for number in requests:
            start, end = end, end + self._sizes[number]
            own = {output: [*buffers[start:end]] for output, buffers in found.items()}
            due.append(partial(self._requests[number].on_result, own))
        call_each(due, RAISED)

    def on_failure(self, requests: Sequence[int], failure: Exception) -> None:
        told = (partial(self._requests[number].on_failure, failure) for number in requests)
        call_each(deque(told), RAISED)


class SubmittedRows:
    """Requests that `submit_rows` has sent on their way.

    Attributes:
        count: How many there was room for.
    """

    __slots__ = ("_session", "count")

    def __init__(self, session: "Session", count: int) -> None:
        """Made by `submit_rows`."""
        self._session = session
        self.count = count

    def cancel(self, number: int) -> None:
        """Ends one at once, whose party is told that it has failed, unless it is over."""
        request_batch = self._session.request_batch
        assert request_batch is not None  # it was made for them
        self._session.has_deadlines = True  # so that workers look at what is given up
        request_batch.leave(number, Cancelled("the request was cancelled"))


def submit_rows(  # noqa: PLR0913 - what a batch of requests is
    scheduler: "Scheduler",
    rows: Sequence[Buffer],
    batch_members: BatchMembers,
    on_room: Callable[[], None] | None = None,
    *,
    sizes: Sequence[int] | None = None,
    deadlines: Sequence[float | None] | None = None,
    is_together: bool = False,
) -> SubmittedRows:
    """Sends requests together, as `submit` does, at less cost for each.

    None waits for another here either. Where the scheduler is not ``is_row_by_row`` they cannot.

    Args:
        scheduler: `Flow.scheduler`.
        rows: What they bring, one after the other, for the graph's only input. Nobody else changes
            an array.
        batch_members: Who is told what becomes of them, by number, perhaps before this returns, on
            the thread that brought it about, which it must not hold up.
        on_room: Called once if there is no room for all, when there may be.
        sizes: How many of the rows each request has, at least 1; None: one each.
        deadlines: Until when somebody waits for each request, in the seconds of `time.monotonic`;
            None: for ever, or as the rows themselves say where all is None.
        is_together: All enter where the first queue has room for one row: small rows, which cost
            more to hold back than to queue. ``max_in_flight`` counts them all the same.

    Returns:
        How many requests are on their way, the first ones; the others are not.

    Raises:
        StreamClosed: the flow does not run.
        ValueError: ``sizes`` do not fit the rows, or ``deadlines`` the requests.
    """
    sizes = [1] * len(rows) if sizes is None else sizes
    if sum(sizes) != len(rows) or min(sizes, default=1) < 1:
        raise ValueError(
            f"sizes: got {sum(sizes)} rows in all; expected {len(rows)}, 1 each at least"
        )
    if deadlines is not None:
        if len(deadlines) != len(sizes):
            raise ValueError(
                f"deadlines: got {len(deadlines)}; expected {len(sizes)}, one a request"
            )
        left = iter(rows)
        for size, due in zip(sizes, deadlines, strict=True):
            for row in islice(left, size):
                row._deadline = due
    submitted, backpressure = _enter_rows(
        scheduler, batch_members, rows, sizes, is_together=is_together
    )
    _go_on(scheduler, backpressure, on_room)
    return submitted


def _enter_rows(
    scheduler: "Scheduler",
    batch_members: BatchMembers,
    rows: Sequence[Buffer],
    sizes: Sequence[int],
    *,
    is_together: bool,
) -> tuple[SubmittedRows, "Backpressure | None"]:
    session, submitter = scheduler.create_request_batch(), scheduler.submitter
    count, backpressure = submitter.enter_request_batch(
        session, batch_members, rows, sizes, is_together=is_together
    )
    return SubmittedRows(session, count), backpressure


def _submit_request_batch(
    scheduler: "Scheduler", requests: Sequence[Request]
) -> tuple[int, "Backpressure | None"]:
    brought = [request.rows() for request in requests]
    sizes = [*map(len, brought)]
    if not all(sizes):  # somebody has emptied a list that he gave
        return _submit_sessions(scheduler, requests)
    rows = [row for own in brought for row in own]
    members = _BatchedRequests(requests, sizes)
    submitted, backpressure = _enter_rows(scheduler, members, rows, sizes, is_together=False)
    for number in range(submitted.count):
        request = requests[number]
        request._place, request._rows = (submitted, number), None
        if request._is_cancelled:
            submitted.cancel(number)
    return submitted.count, backpressure


def _submit_sessions(
    scheduler: "Scheduler", requests: Sequence[Request]
) -> tuple[int, "Backpressure | None"]:
    """Sends each as a session; of those that find no room, nothing is made.

    512 requests are offered and there is room for two: two sessions are made, with their buffers.
    """
    submitter = scheduler.submitter
    fitting, backpressure = submitter.count_fitting(request.inputs for request in requests)
    going = requests[:fitting]
    fresh = [request for request in going if not request.is_submitted]
    for request, session in zip(fresh, scheduler.create_sessions(len(fresh)), strict=True):
        request.begin(scheduler, session)
    entries = [request.entry() for request in going]
    count, later = submitter.enter_many(entries)
    for request, entry in zip(going[count:], entries[count:], strict=True):
        request._entry = entry  # another thread has taken the room meanwhile
    return count, backpressure if later is None else later
