"""What a scheduler is told beside its plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelflow.buffer import Buffer
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock


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
