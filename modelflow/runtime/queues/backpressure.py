"""What keeps rows from entering now, and how to learn that it has gone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelflow.runtime.clock import Clock
    from modelflow.runtime.queues.inbox import Inbox
    from modelflow.runtime.session.in_flight import InFlight
    from modelflow.runtime.session.session import Session


@dataclass(frozen=True, slots=True)
class Backpressure:
    """What keeps rows from entering now."""

    reason: str
    """For messages."""
    wait: Callable[[float | None], object]
    """Waits until it may have gone, at most so many seconds."""
    on_gone: Callable[[Callable[[], None]], None]
    """Registers a callback for that moment."""
    forget: Callable[[Callable[[], None]], None]
    """Takes such a callback back."""
    is_rejectable: bool
    """``queue_policy=reject`` refuses instead of waiting for it."""


def check_unread(
    session: "Session", who: str, bound: int, clock: "Clock", is_over: Callable[[], bool]
) -> Backpressure:
    """Returns what ``who`` waits for where ``bound`` results of the session are unread."""
    unread = ", ".join(
        f"{output!r} ({len(results)} unread)" for output, results in session.results.items()
    )
    progress = session.progress
    return Backpressure(
        f"{who} waits because {bound} buffers of session {session.name!r} have not been "
        f"received: read its outputs {unread}, or raise results_bound",
        lambda timeout: progress.wait_until_read(clock, bound, timeout, is_over),
        lambda callback: progress.on_read(bound, callback, is_over),
        progress.forget,
        is_rejectable=False,
    )


def check_in_flight(
    in_flight: "InFlight", clock: "Clock", is_over: Callable[[], bool]
) -> Backpressure:
    """Returns what rows wait for while as many as may be are inside the graph."""
    return Backpressure(
        f"max_in_flight={in_flight.bound} buffers are inside the graph",
        lambda timeout: in_flight.wait(clock, timeout, is_over),
        lambda callback: in_flight.on_room(callback, is_over),
        in_flight.forget,
        is_rejectable=True,
    )


def check_inbox(inbox: "Inbox", port: int, session: "Session | None") -> Backpressure:
    """Returns what rows (of a session, or of any) wait for while a first queue is full."""
    is_unmatched = inbox.is_unmatched(port)
    if is_unmatched:
        reason = (
            f"{inbox.policy.unmatched_bounds[port]} buffers of input {inbox.ports[port]!r} of node "
            f"{inbox.node!r} wait for their partners on its other inputs"
        )
    else:
        reason = f"the queue of node {inbox.node!r} is full ({inbox.ready} buffers)"
    return Backpressure(
        reason,
        lambda timeout: inbox.wait_for_room(port, timeout, session),
        lambda callback: inbox.on_room(port, callback, session),
        inbox.forget,
        is_rejectable=not is_unmatched,
    )
