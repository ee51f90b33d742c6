"""One session: what travels with its data, where its results arrive, and how it ends."""

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
_PASSED = Stream.__new__(Stream)  # of no session, as nobody asks for it


class Session:
    """The life of one `StreamIO`, or of one source.

    Its name, origin and context travel with the data; `progress` and `results` stay where the flow
    runs.
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
    """Unique in the flow."""
    origin: str
    """The source node that feeds it; ``""`` for the graph's own inputs."""
    context: dict[str, Any]
    """The dict that all units of the session share."""
    stream: Stream
    """Its stream at the top of the graph; once everything has passed, one of no session."""
    meta: dict[str, Any]
    """That stream's own small values."""
    progress: Progress
    """How far it has come."""
    results: dict[str, Results]
    """Output name -> what arrived there, for the outputs that its data can reach."""
    single_outputs: frozenset[str]
    """The outputs that give exactly one result for each row that is sent."""
    is_stopped: bool
    """Its input was closed because the flow is being stopped."""
    is_cancelled: bool
    """What is queued for it is dropped wherever it is found."""
    failure: Exception | None
    """Why it was cancelled, if the flow did it; None if its user did."""
    has_deadlines: bool
    """Some row was sent with a deadline (`Buffer` carries it), or has been given up."""
    request_batch: "RequestBatch | None"
    """Who waits for each of its rows; None: its results are read as one stream."""
    handoff: "Handoff | None"
    """What whoever sends goes on with on its own thread; None: with nothing."""
    began: float | None
    """When it was opened, by the clock; None: it is a source's own, which is no request."""
    spoilt: dict[int, bool] | None
    """Its requests that have failed, by number (0, where all of it is one); True: a deadline has
    passed."""
    on_error: Callable[[Buffer], None] | None
    """Called with each error that arrives where no reader is; None: nobody is told."""
    watcher: Watcher | None
    """Who is told of every batch that its rows are in; None: nobody."""

    def __init__(  # noqa: PLR0913 - what a session is
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
        """Makes a session that nothing has entered yet.

        Args:
            name: Unique in the flow.
            origin: The source node; ``""`` for a session of the graph's own inputs.
            ends: Where its data can leave the graph.
            in_flight: Where its rows inside the graph are counted; None: nowhere.
            on_finished: Called once, when the end has passed every terminal or it is cancelled.
            opener: The session of the source that has begun this one with one buffer; it is given
                the results and the errors.
            request_batch: Who waits for each of its rows; None: its results are read as one stream.
        """
        self.name = name
        self.origin = origin
        self.context = {}
        self.stream = Stream(self)
        self.meta = self.stream.meta
        self.watcher = self.handoff = self.began = self.spoilt = self.on_error = None
        self.request_batch = request_batch
        self.results = {}
        if request_batch is None:
            for output in ends.outputs:
                of_opener = None if opener is None else opener.results[output]
                self.results[output] = Results() if of_opener is None else SharedResults(of_opener)
        self.single_outputs = ends.single_outputs
        self.progress = Progress(ends, self.results, in_flight)
        self.progress.is_collected = request_batch is not None
        self.is_cancelled = self.is_stopped = self.has_deadlines = False
        self.failure = None
        self._opener = opener
        self._on_finished = on_finished
        self._on_end: deque[Callable[[], None]] = deque()

    @property
    def is_finished(self) -> bool:
        """Tells whether it is over."""
        return self.progress.is_finished

    @property
    def reader(self) -> Progress:
        """The progress of the session whose reader takes the results."""
        return self.progress if self._opener is None else self._opener.progress

    def spoil(self, positions: Sequence[int], buffers: Sequence[Buffer]) -> None:
        """Notes the rows in error among those that leave the graph, which its figures tell."""
        for position, buffer in zip(positions, buffers, strict=True):
            if buffer.error is not None:
                if self.spoilt is None:
                    self.spoilt = {}
                is_late = isinstance(buffer.error.__cause__, DeadlineExceeded)
                batch = self.request_batch
                self.spoilt.setdefault(0 if batch is None else batch.request_at(position), is_late)

    def tell_errors(self, buffers: Sequence[Buffer]) -> None:
        """Tells of the errors that arrive where no reader is; with no lock held."""
        if self.on_error is not None:
            due: deque[Callable[[], None]] = deque()
            for buffer in buffers:
                if buffer.error is not None:
                    due.append(partial(self.on_error, buffer))
            call_each(due, "session %r: who is told of errors raised", self.name)

    def watch(self, watcher: Watcher) -> None:
        """Has somebody told of it; before anything has entered."""
        self.watcher = watcher if self.watcher is None else Watchers(self.watcher, watcher)
        self.on_end(watcher.over)

    def unwatch(self, watcher: Watcher) -> None:
        """Tells a watcher no more of calls, as long as it is the only one."""
        if self.watcher is watcher:
            self.watcher = None

    def on_end(self, callback: Callable[[], None]) -> None:
        """Has ``callback`` called once when the session is over; at once if it is.

        On the thread that ends it, with no lock held; what it raises is logged.
        """
        self._on_end.append(callback)
        if self.progress.is_finished:
            call_each(self._on_end, _END_RAISED, self.name)

    def finish(self) -> None:
        """Tells everyone that the session is over; called once, with no lock held.

        Once more where a Ctrl-C may have come in the middle of it: who was told is not told again.
        """
        if self._on_end:
            call_each(self._on_end, _END_RAISED, self.name)
        if not self.is_cancelled and (not self.origin or self._opener is not None):
            # Nothing enters any more. The two refer to each other, which would leave every request
            # to the collector of cycles.
            self.stream = _PASSED
        self._on_finished(self)  # last: who waits for the end finds everyone told

    def cancel(self, failure: Exception | None = None) -> bool:
        """Ends the session: its queued data is dropped, its readers and senders wake.

        Args:
            failure: What readers get; `Cancelled` unless given.

        Returns:
            False if it was over already.
        """
        if self.progress.is_finished:
            return False
        # First: who finds the progress at its end finds the reason too.
        self.failure = failure
        self.is_cancelled = True
        if not self.progress.end():
            return False
        message = f"session {self.name!r} was cancelled"
        failure = failure or Cancelled(message)
        for results in self.results.values():
            results.fail(failure)
        if self.request_batch is not None:
            self.request_batch.fail(failure)
        self.progress.wake()
        self.finish()
        return True
