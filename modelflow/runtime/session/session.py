"""A session: the state that travels with its data, its results, and its end."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, DeadlineExceeded
from modelflow.plan import Origin
from modelflow.runtime.session.progress import Progress
from modelflow.runtime.session.results import Results, SharedResults
from modelflow.runtime.session.segment import Stream
from modelflow.runtime.session.watcher import Watcher, Watchers
from modelflow.runtime.waiting import call_each

if TYPE_CHECKING:
    from modelflow.runtime.session.in_flight import InFlight
    from modelflow.runtime.session.request_batch import RequestBatch
    from modelflow.runtime.worker_slot import Handoff

_END_RAISED = "session %r: a callback for its end raised"
# has no session, because no code reads the stream of an ended session
_PASSED = Stream.__new__(Stream)


class Session:
    """The state of a `StreamIO` or of a source.

    Name, origin and context travel with the data. `progress` and `results` stay in the process of
    the flow.
    """

    __slots__ = (
        "__weakref__",
        "_on_end",
        "_on_finished",
        "_opener",
        "began",
        "context",
        "failure",
        "handoff",
        "has_deadlines",
        "is_cancelled",
        "is_first",
        "is_stopped",
        "meta",
        "name",
        "on_error",
        "origin",
        "progress",
        "request_batch",
        "results",
        "single_outputs",
        "spoilt",
        "stream",
        "watcher",
    )

    name: str
    """The name, unique in the flow."""
    origin: str
    """The source node that feeds the session; ``""`` for the graph's own inputs."""
    context: dict[str, Any]
    """The dict that all units of the session share."""
    stream: Stream
    """The stream of the session at the top of the graph; a placeholder after the end."""
    meta: dict[str, Any]
    """The small values of that stream."""
    progress: Progress
    """The counters of rows and results."""
    results: dict[str, Results]
    """Output name -> results, for the outputs that the session's data can reach."""
    single_outputs: frozenset[str]
    """The outputs with exactly one result for each row that is sent."""
    is_stopped: bool
    """True if the input was closed because the flow is being stopped."""
    is_first: bool
    """True if the rows of the session overtake the rows of others in every queue (priority)."""
    is_cancelled: bool
    """True if the session was cancelled, and every node drops the queued data of the session."""
    failure: Exception | None
    """The reason if the flow cancelled the session; None if the user did."""
    has_deadlines: bool
    """True if a row was sent with a deadline (a field of `Buffer`), or was cancelled."""
    request_batch: "RequestBatch | None"
    """The requests of the session, or None if a reader takes the results as one stream."""
    handoff: "Handoff | None"
    """The handoff by which the sending thread runs units itself, or None."""
    began: float | None
    """The time when the session was opened, in seconds of the clock.

    None for the session of a source, which is no request.
    """
    spoilt: dict[int, bool]
    """The failed requests by number, with True if a deadline passed.

    A session without a request batch is request 0.
    """
    on_error: Callable[[Buffer], None] | None
    """Called with each error that arrives at a node without outputs, or None."""
    watcher: Watcher | None
    """The receiver of a report for every call with rows of the session, or None."""

    def __init__(  # noqa: PLR0913 - the parts of a session
        self,
        name: str,
        origin: str,
        ends: Origin,
        *,
        in_flight: "InFlight | None",
        on_finished: Callable[["Session"], None],
        opener: "Session | None" = None,
        request_batch: "RequestBatch | None" = None,
    ) -> None:
        """Makes a session without rows.

        Args:
            name: The name, unique in the flow.
            origin: The source node, or ``""`` for a session of the graph's own inputs.
            ends: The places where the session's data can leave the graph.
            in_flight: The counter of rows inside the graph, or None for no count.
            on_finished: Called once when the end has passed every terminal, or the session is
                cancelled.
            opener: The session of the source that opened this session with one buffer. The opener
                gets the results and the errors.
            request_batch: The requests of the session, or None if a reader takes the results as one
                stream.
        """
        self.name = name
        self.origin = origin
        self.context = {}
        self.stream = Stream(self)
        self.meta = self.stream.meta
        self.watcher = self.handoff = self.began = self.on_error = None
        self.spoilt = {}
        self.request_batch = request_batch
        self.results = {}
        if request_batch is None:
            for output in ends.outputs:
                of_opener = None if opener is None else opener.results[output]
                self.results[output] = Results() if of_opener is None else SharedResults(of_opener)
        self.single_outputs = ends.single_outputs
        self.progress = Progress(ends, self.results, in_flight)
        self.progress.is_collected = request_batch is not None
        self.is_cancelled = self.is_stopped = self.has_deadlines = self.is_first = False
        self.failure = None
        self._opener = opener
        self._on_finished = on_finished
        self._on_end: deque[Callable[[], None]] = deque()

    @property
    def is_finished(self) -> bool:
        """Returns whether the session has ended."""
        return self.progress.is_finished

    @property
    def reader(self) -> Progress:
        """The progress of the session whose reader takes the results."""
        return self.progress if self._opener is None else self._opener.progress

    def spoil(self, positions: Sequence[int], buffers: Sequence[Buffer]) -> None:
        """Notes the failed requests of rows that leave the graph, for the statistics."""
        for position, buffer in zip(positions, buffers, strict=True):
            if buffer.error is not None:
                is_late = isinstance(buffer.error.__cause__, DeadlineExceeded)
                batch = self.request_batch
                self.spoilt.setdefault(0 if batch is None else batch.request_at(position), is_late)

    def tell_errors(self, buffers: Sequence[Buffer]) -> None:
        """Reports errors that arrive at a node without outputs. The caller must hold no lock."""
        if self.on_error is not None:
            due: deque[Callable[[], None]] = deque()
            for buffer in buffers:
                if buffer.error is not None:
                    due.append(partial(self.on_error, buffer))
            call_each(due, "session %r: the callback `on_error` raised", self.name)

    def watch(self, watcher: Watcher) -> None:
        """Adds a watcher, before any row has entered."""
        other = self.watcher
        self.watcher = watcher if other is None else Watchers(other, watcher)
        self.on_end(watcher.over)

    def unwatch(self, watcher: Watcher) -> None:
        """Removes a watcher if the session has no other watcher."""
        if self.watcher is watcher:
            self.watcher = None

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once when the session ends, or immediately if the session has ended.

        The call is on the thread that ends the session, with no lock held. Exceptions of
        ``callback`` are logged.
        """
        self._on_end.append(callback)
        if self.progress.is_finished:
            call_each(self._on_end, _END_RAISED, self.name)

    def finish(self) -> None:
        """Calls all callbacks for the end of the session. The caller must hold no lock.

        Called once, or again if a Ctrl-C may have interrupted the first call. No callback is called
        twice.
        """
        if self._on_end:
            call_each(self._on_end, _END_RAISED, self.name)
        if not self.is_cancelled and (not self.origin or self._opener is not None):
            # Nothing enters any more. Session and stream refer to each other; this line breaks the
            # cycle, so the session is freed without the garbage collector.
            self.stream = _PASSED
        # last, because a thread that waits for the end expects that all callbacks have been called
        self._on_finished(self)

    def cancel(self, failure: Exception | None = None) -> bool:
        """Ends the session, drops its queued data, and wakes its readers and senders.

        Args:
            failure: The exception for readers, or None for `Cancelled`.

        Returns:
            False if the session has already ended.
        """
        told = failure or Cancelled(f"session {self.name!r} was cancelled")

        def note() -> None:
            self.failure, self.is_cancelled = failure, True

        if not self.progress.end(note):
            return False
        for results in self.results.values():
            results.fail(told)
        if self.request_batch is not None:
            self.request_batch.fail(told)
        self.progress.wake()
        self.finish()
        return True
