"""Records a running flow: the calls and waits of its workers are written to a trace file.

Each worker writes to its own trace buffer. A thread of the recording empties the buffers several
times a second, and writes their contents and the state of the queues. The memory therefore stays
constant for any duration. If the process is killed, the file keeps everything written before.
"""

import heapq
import itertools
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from modelflow.errors import RecordingError
from modelflow.profile.trace_events import FollowedRequest, TraceEvents, TraceFile
from modelflow.runtime.lifecycle import stop_at_exit
from modelflow.runtime.workers.trace_buffer import TraceBuffer

if TYPE_CHECKING:
    from modelflow.runtime.scheduler import Scheduler
    from modelflow.runtime.session.watcher import Part, Watcher

R = TypeVar("R")


class SlowRequests(Generic[R]):
    """Keeps the slowest requests of each second; any thread may add requests."""

    def __init__(self, most: int) -> None:
        """Starts empty and keeps at most ``most`` requests a second."""
        self._most = most
        self._lock = threading.Lock()
        self._numbers = itertools.count()  # of two equal durations, the first counts as faster
        self._seconds: dict[int, list[tuple[float, int, R, float]]] = {}

    def add(self, request: R, ended: float, seconds: float) -> None:
        """Adds a request that ended at the clock's time ``ended`` and took so many seconds."""
        entry = (seconds, next(self._numbers), request, ended)
        with self._lock:
            found = self._seconds.setdefault(int(ended), [])
            if len(found) < self._most:
                heapq.heappush(found, entry)
            else:
                heapq.heappushpop(found, entry)

    def take(self, now: float) -> list[tuple[R, float]]:
        """Removes and returns the requests of past seconds with their ends, ordered by end."""
        with self._lock:
            over = [second for second in self._seconds if second + 1 <= now]
            found = [entry for second in over for entry in self._seconds.pop(second)]
        return sorted(((request, ended) for _, _, request, ended in found), key=lambda one: one[1])


logger = logging.getLogger("modelflow")

# Seconds between two reads of the trace buffers and the queues.
_INTERVAL = 0.25
# Most parts of a request that are recorded, because an endless session has endlessly many.
_MOST_PARTS = 1024
# Most ended requests that wait for the thread of the recording, which writes less than 10 000 in a
# second.
_MOST_REQUESTS = 4096


@dataclass(eq=False)
class _Watched:
    """One traced request, until its end."""

    session: str
    began: float
    is_sampled: bool
    on_over: Callable[["_Watched"], None]
    on_much: Callable[["_Watched"], None]
    parts: "list[Part]" = field(default_factory=list)

    def on_call(self, part: "Part") -> None:
        """See `Watcher.on_call`."""
        self.parts.append(part)
        if len(self.parts) >= _MOST_PARTS:
            self.on_much(self)

    def over(self) -> None:
        """See `Watcher.over`."""
        self.on_over(self)


class Recording:
    """Records a flow from `start` (or the beginning of a ``with`` block) to `stop`.

    Attributes:
        path: The trace file.
        slices: The number of calls and waits written.
        requests: The number of requests written.
        lost: The number of slices and requests lost, because they came faster than they could be
            written.
    """

    def __init__(  # noqa: PLR0913 - each is the user's to set
        self,
        scheduler: "Scheduler",
        path: Path,
        *,
        requests: int = 100,
        slowest: int = 0,
        every: int = 16,
        short: float = 200e-6,
        is_packed: bool | None = None,
        most_seconds: float = math.inf,
        followed: Callable[[FollowedRequest], None] | None = None,
    ) -> None:
        """Prepares a recording without a start.

        Args:
            scheduler: The scheduler of the flow.
            path: The file. With the suffix ``.gz`` it is compressed.
            requests: One of so many requests is traced through the graph; 0 traces none.
            slowest: So many of the slowest requests of each second are written in addition. This
                requires that all requests are followed, because the slowest are known only at their
                end.
            every: One of so many short calls is written; 1 writes all.
            short: The seconds below which a call is short.
            is_packed: Whether to compress the file. By default the suffix decides.
            most_seconds: The seconds of the clock after which the recording ends by itself.
            followed: Called with every written request, on the recording's thread.
        """
        self.path = path
        self.slices = self.requests = self.lost = 0
        self._scheduler = scheduler
        self._clock = scheduler.options.clock
        self._sample, self._slowest = requests, slowest
        self._every, self._short = every, short
        self._most_seconds, self._followed = most_seconds, followed
        self._is_packed = path.suffix == ".gz" if is_packed is None else is_packed
        self._is_writing = self._has_left = False
        self._rings: dict[str, TraceBuffer] = {}
        self._sessions = itertools.count()
        self._open: dict[_Watched, None] = {}
        # The open requests that still record their calls. After `_MOST_PARTS` calls a request
        # leaves.
        self._told: dict[_Watched, None] = {}
        self._done: deque[tuple[_Watched, float]] = deque()
        self._lost_requests = 0
        # Guards the two above while a request ends, and the thread while the recording stops.
        self._lock = threading.Lock()
        self._moments: deque[tuple[str, float, Mapping[str, str]]] = deque()
        self._slow = SlowRequests[_Watched](slowest)
        self._is_over = threading.Event()
        self._has_failed = False
        self._error: RecordingError | None = None
        self._thread: threading.Thread | None = None

    # -- called by the runtime --------------------------------------------------------------------

    def ring(self, track: str) -> TraceBuffer:
        """See `Recorder.ring`."""
        # A new worker reuses the buffer of an ended worker.
        return self._rings.setdefault(track, TraceBuffer(self._every, self._short, self._told))

    def note_event(self, what: str, details: Mapping[str, str]) -> None:
        """See `Recorder.note_event`."""
        self._moments.append((what, self._clock.now(), details))

    def watcher(
        self, session: str, began: float, leave: Callable[["Watcher"], None]
    ) -> _Watched | None:
        """See `Recorder.watcher`."""
        is_sampled = self._sample > 0 and next(self._sessions) % self._sample == 0
        if not is_sampled and not self._slowest:
            return None
        leaving = partial(self._leave, leave)
        watched = _Watched(session, began, is_sampled, self._on_end, leaving)
        self._open[watched] = self._told[watched] = None
        return watched

    def _leave(self, leave: Callable[["Watcher"], None], watched: _Watched) -> None:
        self._told.pop(watched, None)
        leave(watched)

    def _on_end(self, watched: _Watched) -> None:
        self._told.pop(watched, None)
        if self._open.pop(watched, self) is not None:
            return
        now = self._clock.now()
        with self._lock:
            if self._has_failed:
                return
            if not watched.is_sampled:
                self._slow.add(watched, now, now - watched.began)
            elif len(self._done) < _MOST_REQUESTS:
                self._done.append((watched, now))
            else:
                self._lost_requests += 1

    # -- start and stop ---------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the recording.

        Raises:
            RecordingError: the file cannot be written.
            RuntimeError: the flow is already being recorded, or this recording has ended.
        """
        if self._is_over.is_set():
            raise RuntimeError(f"trace {self.path}: this recording has ended; make another one")
        self._scheduler.record(self)  # first, because a running recording may write the same file
        try:
            file = TraceFile(self.path, is_packed=self._is_packed)
        except OSError as error:
            self._scheduler.record(None)
            raise self._failure(error) from error
        self._events = TraceEvents(self._scheduler.plan.name, list(self._rings), self._clock.now())
        self._is_writing = True
        self._thread = threading.Thread(
            target=self._run, args=(file,), name=f"modelflow/{self._scheduler.plan.name}/recording"
        )
        stop_at_exit(self)  # before the start, because a Ctrl-C may come while the thread starts
        self._thread.start()
        return self

    @property
    def is_stopped(self) -> bool:
        """Tells whether the recording has no thread."""
        return self._thread is None

    @property
    def is_writing(self) -> bool:
        """Tells whether the recording has started and not yet ended."""
        return self._is_writing

    def disown(self) -> None:
        """Drops the thread in a forked process: thread and file belong to the parent."""
        self._thread = None

    def stop(self, drain: bool = True) -> None:  # noqa: ARG002 - see `Stoppable`
        """Stops the recording and closes the file; a second call has no effect.

        Raises:
            RecordingError: the file could not be written.
        """
        with self._lock:  # of two threads, one stops the recording
            thread, self._thread = self._thread, None
        if thread is None:
            return
        if not self._has_left:
            self._scheduler.record(None)
        self._is_over.set()
        thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self.start() if self._thread is None else self

    def __exit__(self, *_: object) -> None:
        """Stops the recording."""
        self.stop()

    # -- the thread of the recording --------------------------------------------------------------

    def _run(self, file: TraceFile) -> None:
        try:
            with file:
                file.write(*self._events.head())
                until = self._events.begin + self._most_seconds
                while not self._is_over.wait(_INTERVAL) and self._clock.now() < until:
                    self._write(file)
                if not self._is_over.is_set():
                    self._leave_flow()
                self._done.extend(self._slow.take(math.inf))
                self._write(file)
                for watched in [one for one in list(self._open) if one.is_sampled]:
                    self._write_request(file, watched, self._clock.now(), is_over=False)
        except OSError as error:  # raised by `stop`; nothing writes the collected data
            self._error = self._failure(error)
            self._error.__cause__ = error
            self._leave_flow()
            with self._lock:  # a request that ends now is either cleared or not added
                self._has_failed = True
                self._open.clear()
                self._told.clear()
                self._done.clear()
            logger.warning("%s; the recording ends", self._error)
        finally:
            self._is_writing = False

    def _leave_flow(self) -> None:
        """Detaches from the flow before `stop`, to allow another recording."""
        self._has_left = True
        self._scheduler.record(None)

    def _failure(self, error: OSError) -> RecordingError:
        return RecordingError(f"trace {self.path}: cannot be written: {error.strerror or error}")

    def _write(self, file: TraceFile) -> None:
        now, stats = self._clock.now(), self._scheduler.statistics()
        found = 0
        rings = list(self._rings.items())  # a copy, because a new worker may add a buffer
        for track, ring in rings:
            file.write(*self._events.track(track))
            for one in ring.take():
                if one.end > self._events.begin:  # otherwise it ended before the recording began
                    file.write(self._events.slice(track, one))
                    found += 1
        self.lost = sum(ring.lost for _, ring in rings) + self._lost_requests
        for node in stats.values():
            if node.capacity:
                file.write(self._events.counter(f"queue {node.node}", now, {"rows": node.queue}))
        file.write(self._events.counter("in flight", now, {"sessions": stats.in_flight}))
        self._done.extend(self._slow.take(now))
        # Only the present entries, because under load new ones may arrive faster than these are
        # written.
        for _ in range(len(self._moments)):
            file.write(self._events.instant(*self._moments.popleft()))
        for _ in range(len(self._done)):
            watched, ended = self._done.popleft()
            self._write_request(file, watched, ended, is_over=True)
        file.flush()
        self.slices += found

    def _write_request(
        self, file: TraceFile, watched: _Watched, ended: float, *, is_over: bool
    ) -> None:
        self.requests += 1
        parts = tuple(watched.parts)
        request = FollowedRequest(watched.session, watched.began, ended, parts, is_over)
        if self._followed is not None:
            self._followed(request)
        file.write(*self._events.request(request))
