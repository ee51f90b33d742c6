"""A recording of a flow: what its workers did goes into a trace while it runs.

Workers write to trace buffers of their own; a thread of the recording empties them some times a
second and writes what it has found, with the state of the queues, so that memory stays as it is
however long it takes, and a process that is killed leaves what has been written.
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
    """Keeps the slowest of each second; from any thread."""

    def __init__(self, most: int) -> None:
        """Begins with none; keeps at most so many a second."""
        self._most = most
        self._lock = threading.Lock()
        self._numbers = itertools.count()  # of two that took as long the first counts as faster
        self._seconds: dict[int, list[tuple[float, int, R, float]]] = {}

    def add(self, request: R, ended: float, seconds: float) -> None:
        """Takes a request that ended at ``ended``, by the clock, and took so many seconds."""
        entry = (seconds, next(self._numbers), request, ended)
        with self._lock:
            found = self._seconds.setdefault(int(ended), [])
            if len(found) < self._most:
                heapq.heappush(found, entry)
            else:
                heapq.heappushpop(found, entry)

    def take(self, now: float) -> list[tuple[R, float]]:
        """Takes out those of the seconds that are over, each with when it ended, in that order."""
        with self._lock:
            over = [second for second in self._seconds if second + 1 <= now]
            found = [entry for second in over for entry in self._seconds.pop(second)]
        return sorted(((request, ended) for _, _, request, ended in found), key=lambda one: one[1])


logger = logging.getLogger("modelflow")

# Seconds between two looks at the rings, and the queues.
_INTERVAL = 0.25
# Parts of a request after which it is left alone; a session that never ends has ever more.
_MOST_PARTS = 1024


@dataclass(eq=False)
class _Watched:
    """One sampled request, until it is over."""

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
        path: The trace.
        slices: How many calls and waits have been written.
        requests: How many sampled requests have.
        lost: Slices that came faster than they could be written.
    """

    def __init__(  # noqa: PLR0913 - each is the user's to set
        self,
        scheduler: "Scheduler",
        path: Path,
        *,
        requests: int = 100,
        slowest: int = 0,
        every: int = 16,
        short: float = 50e-6,
        is_packed: bool | None = None,
        most_seconds: float = math.inf,
        followed: Callable[[FollowedRequest], None] | None = None,
    ) -> None:
        """Makes one that has not begun.

        Args:
            scheduler: What runs the flow.
            path: The file; with the suffix ``.gz`` it is compressed.
            requests: One of so many requests is followed through the graph; 0: none is.
            slowest: So many of each second's requests are written as well, those that took the
                longest. Nobody knows which before they end: all are followed then.
            every: Of short calls one of so many is written; 1: all are.
            short: Seconds below which a call is short.
            is_packed: It is compressed; None: as its suffix says.
            most_seconds: When it ends by itself, in seconds of the clock from its start.
            followed: Called with every request that is written, on the recording's thread.
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
        # Those of them that are still told of each step: not any more after many.
        self._told: dict[_Watched, None] = {}
        self._done: deque[tuple[_Watched, float]] = deque()
        self._moments: deque[tuple[str, float, Mapping[str, str]]] = deque()
        self._slow = SlowRequests[_Watched](slowest)
        self._is_over = threading.Event()
        self._has_failed = False
        self._error: RecordingError | None = None
        self._thread: threading.Thread | None = None

    # -- told by the runtime ----------------------------------------------------------------------

    def ring(self, track: str) -> TraceBuffer:
        """See `Recorder.ring`."""
        ring = self._rings.get(track)
        if ring is None:  # else its worker has left, and another has come
            ring = self._rings[track] = TraceBuffer(self._every, self._short, self._told)
        return ring

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
        if self._open.pop(watched, self) is not None or self._has_failed:
            return
        now = self._clock.now()
        if watched.is_sampled:
            self._done.append((watched, now))
        else:
            self._slow.add(watched, now, now - watched.began)

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begins.

        Raises:
            RecordingError: the file cannot be written.
            RuntimeError: the flow is being recorded already, or this recording has ended.
        """
        if self._is_over.is_set():
            raise RuntimeError(f"trace {self.path}: this recording has ended; make another one")
        self._scheduler.record(self)  # first: another's file may be of that name
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
        stop_at_exit(self)  # first: a Ctrl-C may come while the thread begins
        self._thread.start()
        return self

    @property
    def is_stopped(self) -> bool:
        """Tells whether nothing of it is left."""
        return self._thread is None

    @property
    def is_writing(self) -> bool:
        """Tells whether it has begun, and has neither been stopped nor ended by itself."""
        return self._is_writing

    def disown(self) -> None:
        """Notes that this process is a fork: its thread, and the file, are the parent's."""
        self._thread = None

    def stop(self, drain: bool = True) -> None:  # noqa: ARG002 - see `Stoppable`
        """Ends it, and the file; harmless where that was done.

        Raises:
            RecordingError: something could not be written.
        """
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
        """Stops it."""
        self.stop()

    # -- its thread -------------------------------------------------------------------------------

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
        except OSError as error:  # raised by `stop`; nothing is kept that nobody writes
            self._error = self._failure(error)
            self._error.__cause__ = error
            self._leave_flow()
            self._has_failed = True
            self._open.clear()
            self._told.clear()
            self._done.clear()
            logger.warning("%s; the recording ends", self._error)
        finally:
            self._is_writing = False

    def _leave_flow(self) -> None:
        """Is told no more, before anybody has stopped it; then somebody else may record."""
        self._has_left = True
        self._scheduler.record(None)

    def _failure(self, error: OSError) -> RecordingError:
        return RecordingError(f"trace {self.path}: cannot be written: {error.strerror or error}")

    def _write(self, file: TraceFile) -> None:
        now, stats = self._clock.now(), self._scheduler.statistics()
        found = 0
        rings = list(self._rings.items())  # a worker may come meanwhile
        for track, ring in rings:
            file.write(*self._events.track(track))
            for one in ring.take():
                if one.end > self._events.begin:  # else it was over before
                    file.write(self._events.slice(track, one))
                    found += 1
        self.lost = sum(ring.lost for _, ring in rings)
        for node in stats.values():
            if node.capacity:
                file.write(self._events.counter(f"queue {node.node}", now, {"rows": node.queue}))
        file.write(self._events.counter("in flight", now, {"sessions": stats.in_flight}))
        self._done.extend(self._slow.take(now))
        while self._moments:
            file.write(self._events.instant(*self._moments.popleft()))
        while self._done:
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
