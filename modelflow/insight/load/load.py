"""One load on one target: who sends what is due, and takes in what is over.

Open loop: request 7 was due at 0.35 s, could be sent at 0.40 s because the target stood still, and
was answered at 0.47 s: its latency is 0.12 s. Counted from when it was sent it would be 0.07 s, and
a target that stands still would look fast (Gil Tene's "coordinated omission").
"""

import math
import threading
from collections import deque
from collections.abc import Callable

from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.pace import Clients, Pace, Rate
from modelflow.insight.load.report import LoadReport, Tally
from modelflow.insight.load.target import Attempt, Outcome, Target
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock

# Requests that are sent together; between two such lots is looked at what is over.
_LOT = 256


def run(
    target: Target,
    options: LoadOptions,
    *,
    clock: Clock = SYSTEM_CLOCK,
    marked: Callable[[], None] | None = None,
) -> LoadReport:
    """Puts load on a target, on the calling thread, and returns what it did; see `Load`.

    ::

        with Flow("graph.toml") as flow:
            report = run(FlowTarget(flow, rows), LoadOptions(rate=200, seconds=5))
            print(report.rate, report.latency.percentile(99))
    """
    return Load(target, options, clock=clock, marked=marked).run()


class Load:
    """One load. It has no thread: `run` sends and counts on its caller's, and sleeps in between.

    What is over is told by whatever thread ended it, which appends it to a list and goes on.
    """

    def __init__(
        self,
        target: Target,
        options: LoadOptions,
        *,
        clock: Clock = SYSTEM_CLOCK,
        marked: Callable[[], None] | None = None,
    ) -> None:
        """Sends nothing yet.

        Args:
            target: It takes requests until the load is over.
            options: What load is wanted.
            clock: What time it goes by; the target goes by the same.
            marked: Called when the warm-up is over, and when nothing is sent any more, before what
                is under way is waited for: for who compares figures of these two moments.
        """
        self._target, self._options, self._clock = target, options, clock
        self._marked = marked or (lambda: None)
        self._tally = Tally(options)
        self._pace: Pace = Rate(options) if options.rate is not None else Clients(options)
        self._condition = threading.Condition()
        # Of other threads: what is over, when; that there is room; that it is to stop.
        self._told: deque[tuple[Attempt, str, float]] = deque()
        self._has_room = True
        self._is_stopped = False
        self._is_resting = False
        # Of the thread that runs it.
        self._under_way: deque[Attempt] = deque()  # in the order in which they are given up
        self._backlog: deque[Attempt] = deque()  # the target had no room for them
        self._in_flight = self._counted = 0
        self._window = self._sent_until = self._over = math.inf
        self._is_timed = self._is_whole = False

    @property
    def counts(self) -> tuple[int, int]:
        """How many requests were answered well so far, and how many were not; from any thread."""
        return self._tally.answered, self._tally.failed

    def stop(self) -> None:
        """Has `run` send nothing more and end when what is under way is over; from any thread."""
        self._is_stopped = True
        self._wake()

    def run(self) -> LoadReport:
        """Does it, once; returns what it did.

        Raises:
            Exception: what `Target.submit` raises (a flow that has ended: `StreamClosed`). What was
                under way is given up, and `report` gives what there is. The same at a Ctrl-C.
        """
        start = self._clock.now()
        self._window = start + self._options.warm_up
        self._pace.begin(start)
        try:
            self._send()
            self._drain()
        except BaseException:
            self._give_up()
            raise
        self._over = self._clock.now()
        self._is_whole = True
        return self.report()

    def report(self) -> LoadReport:
        """Returns what there is, once `run` has ended, however."""
        until = self._sent_until if self._is_timed else self._over
        seconds, sending = (max(0.0, end - self._window) for end in (until, self._sent_until))
        return self._tally.report(self._target.name, seconds, sending, self._is_whole)

    # -- the thread that runs it ------------------------------------------------------------------

    def _send(self) -> None:
        """Sends what is due until the last one was."""
        is_marked = False
        while True:
            now = self._clock.now()
            if not is_marked and now >= self._window:
                is_marked = True
                self._marked()
            self._take()
            self._expire(now)
            due = self._make(now)
            if self._is_stopped or due is None:
                break
            self._offer()
            self._rest(min(due, self._pace.end if is_marked else self._window))
        self._is_timed = due is None and not self._is_full and not self._is_stopped
        self._sent_until = self._pace.end if self._is_timed else self._clock.now()
        self._offer()
        if not is_marked:
            self._marked()
        self._marked()

    def _make(self, now: float) -> float | None:
        """Makes requests of what is due by now; returns when the next one is, as `Pace.due`."""
        most = self._options.max_in_flight
        for _ in range(_LOT):
            due = None if self._is_full else self._pace.due(now)
            if due is None or due > now or self._is_stopped:
                return due
            self._pace.advance()
            attempt = Attempt(due, now, self._on_end)
            self._counted += self._tally.since(attempt) >= self._window
            if self._pace.is_open and self._in_flight >= most:
                self._tally.add(attempt, Outcome.SHED, now, self._window)
                continue
            self._in_flight += 1
            self._under_way.append(attempt)
            self._backlog.append(attempt)
        return now

    @property
    def _is_full(self) -> bool:
        return self._counted >= self._pace.most

    def _offer(self) -> None:
        """Gives the target what it has room for."""
        while self._backlog and self._has_room:
            if self._backlog[0].is_over:  # given up before the target had it
                self._backlog.popleft()
                continue
            lot = [self._backlog[place] for place in range(min(_LOT, len(self._backlog)))]
            self._has_room = False
            taken = self._target.submit(lot, self._room)
            for _ in range(taken):
                self._backlog.popleft()
            if taken < len(lot):
                return
            self._has_room = True

    def _take(self) -> None:
        """Takes in what is over."""
        while self._told:
            attempt, outcome, end = self._told.popleft()
            if attempt.is_over:
                continue
            last = self._tally.since(attempt) + self._options.timeout
            if end > last:  # told of before it could be given up
                outcome, end = Outcome.TIMED_OUT, last
            self._close(attempt, outcome, end)

    def _close(self, attempt: Attempt, outcome: str, end: float) -> None:
        attempt.is_over = True
        self._in_flight -= 1
        self._tally.add(attempt, outcome, end, self._window)
        self._pace.on_free(end)

    def _expire(self, now: float) -> None:
        """Gives up what was not answered in time."""
        while (last := self._expiry()) <= now:
            attempt = self._under_way.popleft()
            self._close(attempt, Outcome.TIMED_OUT, last)
            self._target.cancel(attempt)

    def _expiry(self) -> float:
        """Returns when the next one is given up, if it is not over before."""
        while self._under_way and self._under_way[0].is_over:
            self._under_way.popleft()
        if not self._under_way:
            return math.inf
        return self._tally.since(self._under_way[0]) + self._options.timeout

    def _drain(self) -> None:
        """Waits for what is under way, as long as it may take."""
        self._pace.drain()
        while True:
            self._take()
            self._expire(self._clock.now())
            if not self._in_flight:
                return
            self._offer()
            self._rest(math.inf)

    def _give_up(self) -> None:
        self._over = now = self._clock.now()
        self._sent_until = min(self._sent_until, now)
        self._take()
        for attempt in self._under_way:
            if not attempt.is_over:
                self._close(attempt, Outcome.UNFINISHED, now)
                self._target.cancel(attempt)

    def _rest(self, until: float) -> None:
        """Sleeps until then, until a request is to be given up, or until something is told."""
        until = min(until, self._expiry())
        with self._condition:
            self._is_resting = True  # before the look: who tells something looks at it behind that
            if not self._is_told:
                seconds = until - self._clock.now()
                if seconds > 0:
                    self._clock.wait(self._condition, None if math.isinf(seconds) else seconds)
            self._is_resting = False

    @property
    def _is_told(self) -> bool:
        """Tells whether there is something to do for who rests."""
        if self._pace.waits_for_answers and self._told:
            return True
        return (self._is_stopped and not self._pace.is_draining) or bool(
            self._backlog and self._has_room
        )

    # -- any thread -------------------------------------------------------------------------------

    def _on_end(self, attempt: Attempt, outcome: str) -> None:
        self._told.append((attempt, outcome, self._clock.now()))
        if self._is_resting and self._pace.waits_for_answers:
            self._wake()

    def _room(self) -> None:
        self._has_room = True
        self._wake()

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify()
