"""A request with all of its values, whose answer comes by a callback."""

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
    """A request for `submit` that blocks no thread and waits for no other request.

    Servers use this class: requests that arrive together enter the graph together. The thread that
    finishes a request calls ``on_end``.
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
        "is_first",
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
        is_first: bool = False,
    ) -> None:
        """Makes a request that is not submitted yet.

        Args:
            inputs: The values for each input of the graph, each for a buffer of its own.
            on_end: Called once with the request when `answer` would not wait. This is so when all
                results have arrived, the request was cancelled, or the flow has ended. The call is
                on the thread that caused it, and must not block that thread.
            deadline: Seconds from now. Units do not start work on the request after that time.
            context: The initial content of the dict that the units of the session share.
            on_result: Makes the request a stream. Called with the request when `next_result` can
                return a buffer or raise an error. The next call follows only after a `next_result`
                that returned None. The call is on the thread that caused it. Results that are not
                fetched slow down the stream units that make them (``results_bound``).
            is_first: True for a request of the first class. Its rows enter full queues as well, and
                overtake the rows of other requests in every queue.

        Raises:
            TypeError, ValueError: ``deadline`` is no number.
        """
        self.inputs = inputs
        self._on_end: Callable[[Request], None] | None = on_end
        self._on_result = on_result
        self._open: list[str] = []  # the outputs of a stream that have not ended
        self._due: float | None = None
        if deadline is not None:
            self._due = SYSTEM_CLOCK.now() + check_seconds("deadline", deadline)
        self._context = context
        self._is_cancelled = False
        self._entry: SessionEntry | None = None  # made by `submit`, which then found no room for it
        # For a request in a request batch: its place, and its results or its failure.
        self._place: tuple[SubmittedRows, int] | None = None
        self._found: dict[str, list[Buffer]] | None = None
        self._failure: Exception | None = None
        self._rows: list[Buffer] | None = None
        self.size = max(map(len, inputs.values()), default=0)
        """The number of values of the input with the most values."""
        self.is_first = is_first
        """True if the request is of the first class."""
        self.is_batchable = (
            len(inputs) == 1 and self.size > 0 and on_result is None and not is_first
        )
        """True if a request batch can include the request: one input, no stream, no class."""
        self._scheduler: Scheduler | None = None
        self._session: Session | None = None
        self._watcher: Watcher | None = None

    def watch(self, watcher: "Watcher") -> None:
        """Adds a watcher of every batch with rows of this request. Call this before `submit`.

        A watched request is never part of a request batch.
        """
        self._watcher = watcher
        self.is_batchable = False

    @property
    def is_submitted(self) -> bool:
        """Returns whether the request was given to `submit`."""
        return self._session is not None or self._place is not None

    def begin(self, scheduler: "Scheduler", session: "Session") -> None:
        """Assigns the session of this request. Called by `submit`."""
        self._scheduler, self._session = scheduler, session
        self.is_batchable = False  # it has a session of its own now
        session.progress.is_collected = self._on_result is None
        session.is_first = self.is_first
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
        """Returns the rows of this request for a request batch.

        `submit` calls this method, perhaps several times.
        """
        if self._rows is None:
            (values,) = self.inputs.values()
            self._rows = [*map(wrap_input, values)]
            for row in self._rows:
                row._deadline = self._due
        return self._rows

    def on_result(self, found: dict[str, list[Buffer]]) -> None:
        """Stores the results of this request after a request batch has computed them."""
        self._found = found
        self._finish()

    def on_failure(self, failure: Exception) -> None:
        """Stores the reason why a request batch has no results for this request."""
        self._failure = failure
        self._finish()

    def entry(self) -> SessionEntry:
        """Returns the session and the buffers that enter the graph. Called by `submit`."""
        assert self._session is not None  # `begin` was called
        if self._entry is not None:
            kept, self._entry = self._entry, None
            return kept
        columns = {name: [*map(wrap_input, values)] for name, values in self.inputs.items()}
        return SessionEntry(self._session, columns, self._due)

    def _finish(self) -> None:
        # The callback often refers to this request. Clearing the field breaks the cycle, so the
        # request is freed without the garbage collector.
        on_end, self._on_end = self._on_end, None
        assert on_end is not None  # a request ends only once
        on_end(self)

    def _wait_for_results(self, session: "Session") -> None:
        for output in self._open:
            results = session.results[output]
            results.forget(self._came)  # otherwise each call would register another callback
            results.on_ready(self._came)

    def _came(self) -> None:
        assert self._on_result is not None  # only a stream waits for single results
        self._on_result(self)

    def cancel(self) -> None:
        """Cancels the request, drops its queued data, and makes `answer` raise `Cancelled`."""
        self._is_cancelled = True
        if self._place is not None:
            submitted, number = self._place
            submitted.cancel(number)
        elif self._scheduler is not None and self._session is not None:
            self._scheduler.cancel(self._session)

    def next_result(self) -> tuple[str, Buffer] | None:
        """Returns the name of an output and its next buffer. Only for a stream.

        The buffer may be in error. Returns None if no buffer is ready, and then ``on_result`` is
        called when a buffer arrives.

        Raises:
            EndOfStream: All results were returned.
            Cancelled: The request was cancelled.
            StreamClosed: The flow was stopped, or failed.
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
                # the outputs are read one after the other
                self._open.append(self._open.pop(self._open.index(output)))
                session.progress.took()
                return output, unwrap_output(buffer)
        if not self._open:
            raise EndOfStream("everything has come out")
        self._wait_for_results(session)
        return None

    @property
    def is_drained(self) -> bool:
        """Returns whether every result so far was returned and every output has ended."""
        session = self._session
        if session is None:
            return False
        found = [session.results[output] for output in self._open]
        return all(results.is_ended and not len(results) for results in found)

    def answer(self) -> dict[str, list[Buffer]]:
        """Returns the buffers of each output; buffers may be in error.

        Call this method once, after ``on_end``.

        Raises:
            Cancelled: The request was cancelled.
            StreamClosed: The flow was stopped, or failed.
            TimeoutError: The request has not ended yet.
        """
        if self._session is not None:
            return {
                output: [*map(unwrap_output, results.get_all(SYSTEM_CLOCK, 0.0))]
                for output, results in self._session.results.items()
            }
        if self._failure is not None:
            # all requests of the batch share this exception, and each raise adds to its traceback
            raise self._failure.with_traceback(None)
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
    """Submits requests together under one lock and with one wake-up, without waiting.

    The requests do not wait for each other, and each has its own deadline, error and
    `Request.cancel`. Each answer comes by the callback of its request, in any order. In a graph of
    normal units the requests share a session. Submit requests of the first class in calls of their
    own.

    Args:
        scheduler: `Flow.scheduler`.
        requests: New requests, or requests that an earlier call returned. If many requests are
            waiting, submit no more than ``free_rows`` of the scheduler's ``submitter``.
        on_room: If requests are returned, called once when there may be room for them.

    Returns:
        The requests for which the graph had no room, in order. Submit them again later.

    Raises:
        KeyError: A request has an input that the graph does not have. No request was submitted.
        StreamClosed: The flow does not run, or its graph has no input.
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
    """Runs the requests of an inline flow, and registers ``on_room`` if some did not fit."""
    scheduler.pump(is_awaited=False)
    if backpressure is not None and on_room is not None:
        backpressure.on_gone(on_room)


def _submit_mixed(
    scheduler: "Scheduler", requests: Sequence[Request]
) -> tuple[int, "Backpressure | None"]:
    """Submits the batchable requests in request batches, and the others as sessions.

    Returns:
        The number of requests that entered, and the backpressure of the next one. None if all
        entered.
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
    """The members of a request batch: passes to each request the results of its own rows."""

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
    """The requests that `submit_rows` has submitted.

    Attributes:
        count: The number of requests for which the graph had room.
    """

    __slots__ = ("_session", "count")

    def __init__(self, session: "Session", count: int) -> None:
        """Stores the session; only `submit_rows` calls this."""
        self._session = session
        self.count = count

    def cancel(self, number: int) -> None:
        """Cancels a request that has not ended, and reports the failure to ``batch_members``."""
        request_batch = self._session.request_batch
        assert request_batch is not None  # `submit_rows` made the session as a request batch
        self._session.has_deadlines = True  # workers then skip the rows of cancelled requests
        request_batch.leave(number, Cancelled("the request was cancelled"))


def submit_rows(  # noqa: PLR0913 - the parts of a batch of requests
    scheduler: "Scheduler",
    rows: Sequence[Buffer],
    batch_members: BatchMembers,
    on_room: Callable[[], None] | None = None,
    *,
    sizes: Sequence[int] | None = None,
    deadlines: Sequence[float | None] | None = None,
    is_together: bool = False,
) -> SubmittedRows:
    """Submits requests together as `submit` does, at a lower cost for each request.

    The requests do not wait for each other. Only for a scheduler with ``is_row_by_row``.

    Args:
        scheduler: `Flow.scheduler`.
        rows: The rows of all requests, one request after the other, for the graph's only input. No
            other code may change their arrays.
        batch_members: Receives the results or the failure of each request by its number, perhaps
            before this function returns. The call is on the thread that caused it, and must not
            block that thread.
        on_room: If some requests do not fit, called once when there may be room.
        sizes: The number of rows of each request, at least 1. None for one row each.
        deadlines: The time until which a caller waits for each request, in seconds of
            `time.monotonic`. An item None means no deadline. None for all keeps the deadlines that
            the rows already have.
        is_together: True to let all requests enter if the first queue has room for one row. For
            small rows, which are cheaper to queue than to hold back. ``max_in_flight`` still counts
            them all.

    Returns:
        The submitted requests. Only the first ``count`` requests entered the graph.

    Raises:
        StreamClosed: The flow does not run.
        ValueError: ``sizes`` do not fit the rows, or ``deadlines`` do not fit the requests.
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
    if not all(sizes):  # a caller has emptied the list of a request after its creation
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
    """Submits each request as a session, and makes no session for requests without room.

    Example: of 512 requests, two have room, so only two sessions with their buffers are made.
    """
    submitter = scheduler.submitter
    is_first = bool(requests) and requests[0].is_first
    fitting, backpressure = submitter.count_fitting(
        (request.inputs for request in requests), is_first=is_first
    )
    going = requests[:fitting]
    fresh = [request for request in going if not request.is_submitted]
    for request, session in zip(fresh, scheduler.create_sessions(len(fresh)), strict=True):
        request.begin(scheduler, session)
    entries = [request.entry() for request in going]
    count, later = submitter.enter_many(entries, is_first=is_first)
    for request, entry in zip(going[count:], entries[count:], strict=True):
        # another thread has used the room meanwhile; keep the entry for the next `submit`
        request._entry = entry
    return count, backpressure if later is None else later
