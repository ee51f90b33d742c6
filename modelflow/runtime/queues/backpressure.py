"""The reasons for which a producer must wait, with functions that wait for each of them to end.

Waiting producers cannot block the graph for ever. Only *ready* rows make a producer wait: rows for
which every input of the node has its buffer. Edges form no cycle, so behind some full queue every
queue has room. The workers of that queue do not wait; they take its rows, and its producers go on.
Three places need a rule of their own:

- A `Merge` makes only the condition wait.
- The returning edge of a loop always has room.
- A graph output is never full.

Example: "read" feeds "window" and the input "y" of "join". "window" feeds the input "x" of "join".
The stream unit "window" emits its first result after four rows. Each queue has the bound 2::

    "read" sends   "window" keeps   at "join": without partner, ready   may "read" send more?
    row 0          0                y: 0              none              yes
    row 1          0 1              y: 0 1            none              yes
    row 2          0 1 2            y: 0 1 2          none              yes
    row 3          emits 0-3        none              0 1 2 3           no: 4 ready rows >= 2
                                    none              3 (0-2 taken)     yes: at most half of 2

If rows without a partner counted, "read" would wait after row 1, and "window" would never get
row 3. A queue may exceed its bound: a worker that saw room finishes its batch and appends all
results. So at most ``bound - 1 + workers before * rows of one call`` rows are ready. This limit
holds for a queue with one input, unless rows of a paused session come back.
"""

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
    """The reason why rows cannot enter now, and the ways to wait for its end."""

    reason: str
    """The reason, for messages."""
    wait: Callable[[float | None], object]
    """Waits until the reason may be gone, at most the given number of seconds."""
    on_gone: Callable[[Callable[[], None]], None]
    """Registers a callback that is called once when the reason may be gone."""
    forget: Callable[[Callable[[], None]], None]
    """Removes a callback of `on_gone`."""
    is_rejectable: bool
    """True if ``queue_policy=reject`` refuses the rows instead of waiting."""


def check_unread(
    session: "Session", who: str, bound: int, clock: "Clock", is_over: Callable[[], bool]
) -> Backpressure:
    """Returns the backpressure for ``who`` while ``bound`` results of the session are unread."""
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
    """Returns the backpressure while ``max_in_flight`` rows are inside the graph."""
    return Backpressure(
        f"max_in_flight={in_flight.bound} buffers are inside the graph",
        lambda timeout: in_flight.wait(clock, timeout, is_over),
        lambda callback: in_flight.on_room(callback, is_over),
        in_flight.forget,
        is_rejectable=True,
    )


def check_inbox(inbox: "Inbox", port: int, session: "Session | None") -> Backpressure:
    """Returns the backpressure of a full queue behind a graph input.

    With ``session``, waiting also ends when that session is closed.
    """
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
