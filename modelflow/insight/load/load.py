"""A load test of a target: sends the requests that are due, and counts their outcomes.

Example of an open loop: request 7 was due at 0.35 s. The target was stalled, and accepted the
request only at 0.40 s. The reply came at 0.47 s, so the latency is 0.12 s. Counted from the time of
sending it would be 0.07 s, and a stalled target would look fast. This error is known as
"coordinated omission" (Gil Tene).
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

# Requests submitted together. Finished requests are counted between two such lots.
_LOT = 256


def run(
    target: Target,
    options: LoadOptions,
    *,
    clock: Clock = SYSTEM_CLOCK,
    marked: Callable[[], None] | None = None,
) -> LoadReport:
    """Runs a load test on the calling thread, and returns its report; see `Load`.

    ::

        with Flow("graph.toml") as flow:
            report = run(FlowTarget(flow, rows), LoadOptions(rate=200, seconds=5))
            print(report.rate, report.latency.percentile(99))
    """
    return Load(target, options, clock=clock, marked=marked).run()


class Load:
    """A load test that has no thread of its own.

    `run` sends and counts requests on the caller's thread, and sleeps in between. Whichever thread
    ends a request appends its outcome to a list and goes on at once.
    """

    def __init__(
        self,
        target: Target,
        options: LoadOptions,
        *,
        clock: Clock = SYSTEM_CLOCK,
        marked: Callable[[], None] | None = None,
    ) -> None:
        """Prepares the load test; sends nothing.

        Args:
            target: The target; it must accept requests until the load test is over.
            options: The rate or the number of clients, and the duration.
            clock: The clock of the load test; the target must use the same clock.
            marked: Called twice: at the end of the warm-up, and after the last request was sent,
                before the wait for open requests. Compare the target's statistics of both times.
        """
        self._target, self._options, self._clock = target, options, clock
        self._marked = marked or (lambda: None)
        self._tally = Tally(options)
        self._pace: Pace = Rate(options) if options.rate is not None else Clients(options)
        self._condition = threading.Condition()
        # Written by other threads: ended requests, room at the target, the order to stop.
        self._told: deque[tuple[Attempt, str, float]] = deque()
        self._has_room = True
        self._is_stopped = False
        self._is_resting = False
        # Used by the thread of `run` only.
        self._under_way: deque[Attempt] = deque()  # in the order of their time-outs
        self._backlog: deque[Attempt] = deque()  # not submitted yet, for lack of room
        self._in_flight = self._counted = 0
        self._window = self._sent_until = self._over = math.inf
        self._is_timed = self._is_whole = False

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of successful and failed requests so far; callable from any thread."""
        return self._tally.answered, self._tally.failed

    def stop(self) -> None:
        """Stops sending; `run` ends after the open requests. Callable from any thread."""
        self._is_stopped = True
        self._wake()

    def run(self) -> LoadReport:
        """Runs the load test once and returns its report.

        Raises:
            Exception: An exception of `Target.submit`, such as `StreamClosed` if the flow has
                ended. Open requests are then cancelled, and `report` returns the results so far.
                A Ctrl-C has the same effect.
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
        """Returns the results, after `run` has returned or raised."""
        until = self._sent_until if self._is_timed else self._over
        seconds, sending = (max(0.0, end - self._window) for end in (until, self._sent_until))
        return self._tally.report(self._target.name, seconds, sending, self._is_whole)

    # -- thread of `run` --------------------------------------------------------------------------

    def _send(self) -> None:
        """Sends requests until no more are due, or until `stop`."""
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
        """Makes the requests that are due by now; returns the time of the next, as `Pace.due`."""
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
        """Submits the backlog, as far as the target has room."""
        while self._backlog and self._has_room:
            if self._backlog[0].is_over:  # timed out before it was submitted
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
        """Counts the requests that other threads have ended."""
        while self._told:
            attempt, outcome, end = self._told.popleft()
            if attempt.is_over:
                continue
            last = self._tally.since(attempt) + self._options.timeout
            if end > last:  # the end was reported before `_expire` ran
                outcome, end = Outcome.TIMED_OUT, last
            self._close(attempt, outcome, end)

    def _close(self, attempt: Attempt, outcome: str, end: float) -> None:
        attempt.is_over = True
        self._in_flight -= 1
        self._tally.add(attempt, outcome, end, self._window)
        self._pace.on_free(end)

    def _expire(self, now: float) -> None:
        """Cancels the requests whose time-out has passed."""
        while (last := self._expiry()) <= now:
            attempt = self._under_way.popleft()
            self._close(attempt, Outcome.TIMED_OUT, last)
            self._target.cancel(attempt)

    def _expiry(self) -> float:
        """Returns the time-out of the oldest open request, or infinity if none is open."""
        while self._under_way and self._under_way[0].is_over:
            self._under_way.popleft()
        if not self._under_way:
            return math.inf
        return self._tally.since(self._under_way[0]) + self._options.timeout

    def _drain(self) -> None:
        """Waits for the open requests, at most until their time-outs."""
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
        """Sleeps until the given time, the next time-out, or a report of another thread."""
        until = min(until, self._expiry())
        with self._condition:
            # Set before `_is_told` is read. Other threads write their report first and read this
            # flag afterwards, so no report is missed.
            self._is_resting = True
            if not self._is_told:
                seconds = until - self._clock.now()
                if seconds > 0:
                    self._clock.wait(self._condition, None if math.isinf(seconds) else seconds)
            self._is_resting = False

    @property
    def _is_told(self) -> bool:
        """Whether another thread has reported something that ends the sleep."""
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
