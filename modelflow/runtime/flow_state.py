"""The options, the state and the errors of a flow, for start, stop and waiting threads.

The states are ``new`` -> ``running`` -> ``stopping`` -> ``stopped``. Example: a unit that does not
open stores its error here, which wakes the starting thread. That thread sees the error, and gives
up the start.
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
    """The options of a flow in addition to its graph."""

    is_inline: bool = False
    """True if all units run on the calling thread."""
    results_bound: int = 1024
    """The number of rows between submitter and reader of a session at which `send` waits."""
    stop_timeout: float = 10.0
    """The time limits of a stop, in seconds.

    Streams may continue by events of their own, and rows may stay in loops, for this time. The stop
    also ends its wait after this time without any progress.
    """
    watchdog_interval: float = 30.0
    """Seconds in one call of a unit after which a warning names the node."""
    on_error: Callable[[Buffer], None] | None = None
    """Called with each buffer in error at a node without outputs, with no lock held."""
    tap: Callable[[str, str, Sequence[Buffer]], None] | None = None
    """Called with the buffers of every output; see `modelflow.runtime.entry.sinks`."""
    clock: Clock = SYSTEM_CLOCK
    """The clock of all waits."""


class FlowState:
    """The state of a flow, with the lock for the state and the sessions. Safe from any thread."""

    name: str
    """The name of the flow."""
    clock: Clock
    """The clock of all waits."""
    lock: Lock
    """The lock for all fields of this object, and for the sessions."""
    changed: Waiting
    """The threads that wait for a change of this object, or for the end of a session."""
    state: str
    """``new``, ``running``, ``stopping`` or ``stopped``."""
    errors: list[Exception]
    """The errors that belong to no buffer, in order; if not empty, the flow has failed."""
    is_aborted: bool
    """True if sessions must end immediately, including sessions that a source still opens."""
    is_opening: bool
    """True while the start opens units, and no unit may begin, run, or be closed."""
    opening: int
    """The number of workers that have not opened their units yet."""
    beginning: int
    """The number of workers that have not begun yet."""

    def __init__(self, name: str, workers: int, clock: Clock) -> None:
        """Makes the state of a flow that has not started.

        Args:
            name: The name of the flow.
            workers: The number of workers that will open their units and begin.
            clock: The clock of all waits.
        """
        self.name = name
        self.clock = clock
        # Code takes this lock directly. A Ctrl-C may interrupt the Python methods of a condition.
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
        """Returns whether sessions can be created."""
        return self.state == "running" and not self.opening and not self.errors

    @property
    def goes_on(self) -> bool:
        """Returns whether the flow was started, and neither failed nor was stopped."""
        return self.state == "running" and not self.errors

    def wait_while(self, going: Callable[[], object], timeout: float | None = None) -> bool:
        """Waits while ``going()`` is true, and returns False if ``timeout`` seconds passed.

        ``going`` is called with the lock held.
        """
        deadline = None if timeout is None else self.clock.now() + timeout
        with self.lock:
            while going():
                left = None if deadline is None else deadline - self.clock.now()
                if left is not None and left <= 0:
                    return False
                self.changed.wait(self.clock, left)
        return True

    def begin(self) -> None:
        """Changes the state to ``running``.

        Raises:
            StreamClosed: The flow was started before.
        """
        with self.lock:
            if self.state != "new":
                raise StreamClosed(f"flow {self.name!r} is {self.state}; it can be started once")
            self.state = "running"
            self._began = self.clock.now()

    def end(self) -> None:
        """Changes the state to ``stopped``. The caller holds the lock."""
        self.state = "stopped"
        self._ended = self.clock.now()

    def seconds(self, now: float) -> float:
        """Returns the running time of the flow in seconds, at the clock's time ``now``."""
        return 0.0 if self._began is None else (self._ended or now) - self._began

    def on_open(self) -> None:
        """Counts a worker that has opened its units."""
        with self.lock:
            self.opening -= 1
            self.changed.wake()

    def wait_until_all_open(self) -> bool:
        """Waits until every unit is open, and returns False if the start was given up."""
        with self.lock:
            while self.is_opening:
                self.changed.wait(self.clock, None)
            return self.goes_on and not self.is_aborted

    def on_begin(self) -> None:
        """Counts a worker that has begun."""
        with self.lock:
            self.beginning -= 1
            self.changed.wake()

    def fail(self, error: FlowUnitError) -> None:
        """Stores an error that belongs to no buffer, and logs an error that no call will raise."""
        with self.lock:
            if str(error) not in map(str, self.errors):  # only once for all workers of a node
                self.errors.append(error)
            is_noticed = self.beginning or self.state != "running"
            self.changed.wake()
        if not is_noticed:  # otherwise a `start` or `stop` is running, and raises the error
            logger.error("flow %r fails: %s", self.name, error, exc_info=error.__cause__)

    def make_closed_error(self) -> StreamClosed:
        """Returns the error for calls on a flow that does not run."""
        if self.errors:
            error = StreamClosed(f"flow {self.name!r} has failed: {self.errors[0]}")
            error.__cause__ = self.errors[0]
            return error
        return StreamClosed(f"flow {self.name!r} is not running: it is {self.state}")
