"""What a worker knows of its owner: the scheduler, in a flow."""

from typing import TYPE_CHECKING, Protocol

from modelflow.errors import FlowUnitError

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


class WorkerOwner(Protocol):
    """What a worker tells its owner; each call may come from any worker's thread."""

    is_draining: bool
    """No new work is taken: sources end."""
    is_watched: bool
    """A session may have a `Watcher`."""

    def on_open(self) -> None:
        """A unit is open."""

    def wait_until_all_open(self) -> bool:
        """Waits until every worker's unit is open; False if the flow ends instead."""

    def on_begin(self) -> None:
        """A unit has begun."""

    def cancel(self, session: "Session") -> None:
        """Ends a session whose rows are lost."""

    def on_failure(self, error: FlowUnitError) -> None:
        """A unit did not open or close, or our own code failed: the flow must end."""
