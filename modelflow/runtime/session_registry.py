"""The registry of a flow's open sessions, which makes sessions and removes finished sessions.

Example: session "7" is made for a `StreamIO`, and session "camera" for the source of that name.
Session "camera/8" is made for one buffer of a source whose buffers begin their own sessions. Its
errors go to session "camera".
"""

import itertools
import logging
from collections import deque
from collections.abc import Iterable
from functools import partial

from modelflow.errors import StreamClosed
from modelflow.runtime.flow_state import FlowState
from modelflow.runtime.kinds.source import SourceWorker
from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.results import SharedResults
from modelflow.runtime.session.session import Session
from modelflow.runtime.stats import RequestStats
from modelflow.runtime.wiring import Wiring
from modelflow.runtime.workers.trace_buffer import Recorder
from modelflow.runtime.workers.worker import Worker

logger = logging.getLogger("modelflow")


class SessionRegistry:
    """The open sessions of a flow, guarded by the lock of its `FlowState`."""

    known: dict[Session, None]
    """The sessions that have not ended, in the order of their creation."""
    of_sources: dict[str, Session]
    """The sessions of the sources, by node."""
    opened_by_sources: int
    """The number of open sessions that sources have opened."""
    stats: RequestStats
    """The outcomes of the sessions that have ended."""
    recorder: Recorder | None
    """The recorder, which selects sessions to watch; None without a recording."""

    def __init__(self, wiring: Wiring, workers: Iterable[Worker], life: FlowState) -> None:
        """Makes the sessions of the sources.

        Args:
            wiring: Makes each session, and accepts the end of its input.
            workers: The workers of the flow. Workers of sources get a session and the submitter.
            life: The state of the flow, which is also notified of the end of a session.
        """
        self.known = {}
        self.of_sources = {}
        self.opened_by_sources = 0
        self.stats = RequestStats()
        self.recorder: Recorder | None = None
        self._wiring = wiring
        self._life = life
        self._dropped: deque[Session] = deque()
        self._numbers = itertools.count()
        for worker in workers:
            if isinstance(worker, SourceWorker):
                self._feed(worker)

    # -- made -----------------------------------------------------------------------------------

    def create(self, count: int, *, is_request_batch: bool = False) -> list[Session]:
        """Makes sessions of the graph's own inputs; see `Scheduler.create_sessions`.

        Args:
            count: The number of sessions.
            is_request_batch: True if many requests share each session; see
                `Scheduler.create_request_batch`.
        """
        plan, life = self._wiring.plan, self._life
        if not plan.entries:
            names = ", ".join(map(repr, self.of_sources))
            raise StreamClosed(
                f"flow {plan.name!r} has no input; it is fed by its sources: {names} "
                "(create_stream_io(source=...) receives from a source)"
            )
        if self._dropped:
            self.end_dropped()
        made, now, origin = [], life.clock.now(), plan.origins[""]
        for _ in range(count):
            request_batch = None
            if is_request_batch:
                request_batch = RequestBatch(len(origin.terminals), origin.outputs)
            name = str(next(self._numbers))
            session = self._wiring.session(name, "", self._on_finished, request_batch=request_batch)
            made.append(session)
            session.began = now
            self._sample(session, now)
        with life.lock:
            if not life.is_running:
                raise life.make_closed_error()
            self.known.update(dict.fromkeys(made))
        return made

    def _sample(self, session: Session, now: float) -> None:
        recorder = self.recorder  # read once, because a recording may end meanwhile
        if recorder is None:
            return
        watcher = recorder.watcher(session.name, now, session.unwatch)
        if watcher is not None:
            session.watch(watcher)

    def _feed(self, worker: SourceWorker) -> None:
        node = worker.stage.plan.name
        worker.session = session = self._wiring.session(node, node, self._on_finished)
        worker.submitter = self._wiring.submitter
        worker.open_session = partial(self.open_for, session)
        self.known[session] = None
        self.of_sources[node] = session

    def open_for(self, source: Session) -> Session:
        """Makes a session for one buffer of a source, whose own session gets the errors."""
        node, life = source.origin, self._life
        name = f"{node}/{next(self._numbers)}"
        session = self._wiring.session(name, node, partial(self._open_finished, source), source)
        session.began = now = life.clock.now()
        self._sample(session, now)
        with life.lock:
            self.opened_by_sources += 1
            self.known[session] = None
            failure = life.make_closed_error() if life.is_aborted else source.failure
            is_late = life.is_aborted or source.is_cancelled
        if is_late:
            session.cancel(failure)
        return session

    # -- over -----------------------------------------------------------------------------------

    def _open_finished(self, source: Session, session: Session) -> None:
        source.progress.adopt_errors(session.progress)
        with self._life.lock:
            self.opened_by_sources -= 1
        self._on_finished(session)

    def _on_finished(self, session: Session) -> None:
        life = self._life
        with life.lock:
            is_new = self.known.pop(session, self) is None
            if is_new and session.began is not None and session.progress.sent:
                seconds = life.clock.now() - session.began
                request_batch = session.request_batch
                if (
                    not session.spoilt
                    and not session.is_cancelled
                    and (request_batch is None or not request_batch.gone)
                ):
                    requests = 1 if request_batch is None else request_batch.size
                    self.stats.ok += requests
                    self.stats.latencies.add(seconds, requests)
                else:
                    self._count(session, seconds)
            if life.changed.count:
                life.changed.wake()

    def _count(self, session: Session, seconds: float) -> None:
        """Counts the outcomes of a session that was cancelled or had errors."""
        request_batch, spoilt = session.request_batch, session.spoilt
        if request_batch is None:
            ended = "expired" if spoilt.get(0) else "failed"
            self.stats.count("cancelled" if session.is_cancelled else ended, 1, seconds)
            return
        given_up = set(map(request_batch.request_at, request_batch.gone.copy()))
        gone = request_batch.size if session.is_cancelled else len(given_up)
        late = sum(spoilt[request] for request in spoilt.keys() - given_up)
        failed = len(spoilt.keys() - given_up) - late
        counts = {"cancelled": gone, "expired": late, "failed": failed}
        if session.is_cancelled:
            counts = {"cancelled": gone}
        counts["ok"] = request_batch.size - sum(counts.values())
        for outcome, count in counts.items():
            if count:
                self.stats.count(outcome, count, seconds)

    def unread(self) -> dict[str, int]:
        """Counts the results that no reader has taken yet, by output of the graph."""
        found = dict.fromkeys(self._wiring.plan.outputs, 0)
        for session in self.known:
            for output, results in session.results.items():
                # counted with the session of their source
                if not isinstance(results, SharedResults):
                    found[output] += len(results)
        return found

    def drop(self, session: Session) -> None:
        """Notes that the user has dropped a session. Takes no lock and does not wait.

        Python may collect garbage at any point, also while the runtime holds a lock. Therefore the
        session ends later, when another session is made or when the watchdog checks.
        """
        self._dropped.append(session)

    def end_dropped(self) -> None:
        """Closes the inputs and drops the results of sessions that the user has dropped."""
        while self._dropped:
            try:
                session = self._dropped.popleft()
            except IndexError:  # another thread has just taken the last session
                return
            if not session.progress.is_closed:
                text = "session %r was dropped without close_input(); its input ends now"
                logger.warning(text, session.name)
            for results in session.results.values():
                results.abandon()
            self._wiring.submitter.close(session)
            session.progress.wake()

    def close_inputs(self) -> None:
        """Closes the inputs of all sessions; rows that were sent are still processed."""
        for session in list(self.known):
            if not session.origin:
                session.is_stopped = not session.progress.is_closed
                self._wiring.submitter.close(session)

    def are_over(self) -> bool:
        """Returns whether the flow has ended, or all rows of its sources have been processed."""
        if self._life.errors or self._life.state == "stopped":
            return True
        is_done = bool(self.of_sources) and all(s.is_finished for s in self.of_sources.values())
        return is_done and not self.opened_by_sources

    def has_work(self) -> bool:
        """Returns whether sessions are open, after ending dropped sessions.

        Called by the thread of the watchdog.
        """
        self.end_dropped()
        return bool(self.known)
