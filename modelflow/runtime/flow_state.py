"""How a flow runs, how far it has come, and what went wrong: what start, stop and waiters look at.

``new`` -> ``running`` -> ``stopping`` -> ``stopped``. A unit that does not open leaves its error
here; the start, which waits for all units, is woken, sees it, and gives up.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError, StreamClosed
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.locks import Lock, make_lock
from modelflow.runtime.waiting import Waiting

logger = logging.getLogger("modelflow")


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """How a flow runs, beside its graph."""

    is_inline: bool = False
    """Everything runs on the calling thread."""
    results_bound: int = 1024
    """Rows of a session between its submitter and its reader at which `send` waits."""
    stop_timeout: float = 10.0
    """Seconds that a stop lets streams go on by events and rows go round, and seconds without any
    progress after which it no longer waits."""
    watchdog_interval: float = 30.0
    """Seconds in one call of a unit after which its node is named in a warning."""
    on_error: Callable[[Buffer], None] | None = None
    """Called with each buffer in error that arrives where no reader is, with no lock held."""
    tap: Callable[[str, str, Sequence[Buffer]], None] | None = None
    """Is shown what every output gives; see `modelflow.runtime.entry.sinks`."""
    clock: Clock = SYSTEM_CLOCK
    """What every wait goes by."""


class FlowState:
    """The state of a flow, with the lock that guards it (and the sessions); from any thread."""

    name: str
    """The flow's."""
    clock: Clock
    """What every wait goes by."""
    lock: Lock
    """Guards all that is here, and the sessions."""
    changed: Waiting
    """Those who wait for anything here, or for a session that ends."""
    state: str
    """``new``, ``running``, ``stopping`` or ``stopped``."""
    errors: list[Exception]
    """What belongs to no buffer, in the order in which it came: the flow has failed."""
    is_aborted: bool
    """Sessions end at once, those too that a source opens from now on."""
    is_opening: bool
    """Nobody may begin, run, or be closed yet."""
    opening: int
    """How many units are not open yet."""
    beginning: int
    """How many units have not begun yet."""

    def __init__(self, name: str, workers: int, clock: Clock) -> None:
        """A flow that has not started; ``workers``: how many units will open, and begin."""
        self.name = name
        self.clock = clock
        # Taken itself, not through the condition, in whose methods a Ctrl-C may come.
        self.lock = make_lock("scheduler")
        self.changed = Waiting(self.lock)
        self.state = "new"
        self.errors = []
        self.is_aborted = False
        self.is_opening = True
        self.opening = self.beginning = workers
        self._began: float | None = None
        self._ended: float | None = None

    @property
    def is_running(self) -> bool:
        """Tells whether sessions can be created."""
        return self.state == "running" and not self.opening and not self.errors

    @property
    def goes_on(self) -> bool:
        """Tells whether the flow was started, and neither failed nor was stopped."""
        return self.state == "running" and not self.errors

    def wait_while(self, going: Callable[[], object], timeout: float | None = None) -> bool:
        """Waits while ``going()``, asked under the lock; False if ``timeout`` seconds passed."""
        deadline = None if timeout is None else self.clock.now() + timeout
        with self.lock:
            while going():
                left = None if deadline is None else deadline - self.clock.now()
                if left is not None and left <= 0:
                    return False
                self.changed.wait(self.clock, left)
        return True

    def begin(self) -> None:
        """Notes that it starts.

        Raises:
            StreamClosed: it was started before.
        """
        with self.lock:
            if self.state != "new":
                raise StreamClosed(f"flow {self.name!r} is {self.state}; it can be started once")
            self.state = "running"
            self._began = self.clock.now()

    def end(self) -> None:
        """Notes, with the lock held, that everything has ended."""
        self.state = "stopped"
        self._ended = self.clock.now()

    def seconds(self, now: float) -> float:
        """Returns how long it has run, or ran until it was stopped; ``now``: the clock's time."""
        return 0.0 if self._began is None else (self._ended or now) - self._began

    def on_open(self) -> None:
        """Notes an open unit."""
        with self.lock:
            self.opening -= 1
            self.changed.wake()

    def wait_until_all_open(self) -> bool:
        """Waits until every unit is open, or the start is given up: False."""
        with self.lock:
            while self.is_opening:
                self.changed.wait(self.clock, None)
            return self.goes_on and not self.is_aborted

    def on_begin(self) -> None:
        """Notes that a unit has begun."""
        with self.lock:
            self.beginning -= 1
            self.changed.wake()

    def fail(self, error: FlowUnitError) -> None:
        """Notes an error that belongs to no buffer, and logs it where nobody will raise it."""
        with self.lock:
            if str(error) not in map(str, self.errors):  # not once for each worker of a node
                self.errors.append(error)
            is_noticed = self.beginning or self.state != "running"
            self.changed.wake()
        if not is_noticed:  # else start or stop is under way, and raises it
            logger.error("flow %r fails: %s", self.name, error, exc_info=error.__cause__)

    def make_closed_error(self) -> StreamClosed:
        """Returns what to tell those who want something of a flow that does not run."""
        if self.errors:
            error = StreamClosed(f"flow {self.name!r} has failed: {self.errors[0]}")
            error.__cause__ = self.errors[0]
            return error
        return StreamClosed(f"flow {self.name!r} is not running: it is {self.state}")
