"""Somebody who is shown what the outputs of nodes give, on its way.

Whoever debugs a graph looks at what passes an edge. Where a flow has a `Tap`, the first receiver of
every output is wrapped when the flow is wired; one without pays nothing.
"""

from collections.abc import Callable, Sequence

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Segment
from modelflow.runtime.stages.outbox import Receiver, Route
from modelflow.runtime.worker_slot import Handoff

Tap = Callable[[str, str, Sequence[Buffer]], None]
"""Called with a node, its output (of a graph input its name, twice) and the buffers that come from
there, some of them perhaps in error; on the thread that brings them, perhaps under a lock of the
runtime: it must not wait, use the flow, raise, or change a buffer. A `Buffer.twin` may be kept."""


def add_probe(tap: Tap | None, node: str, output: str, route: Route) -> Route:
    """Returns the route of an output, past the tap if there is one."""
    if tap is None or not route:
        return route
    (receiver, port), *others = route  # all of them are given the same
    return ((_Probe(receiver, tap, node, output), port), *others)


class _Probe:
    """A receiver that shows what it is given, and passes it on."""

    append_whole = None

    def __init__(self, receiver: Receiver, tap: Tap, node: str, output: str) -> None:
        self._receiver = receiver
        self._tap = tap
        self._names = node, output

    def append(self, port: int, segments: Sequence[Segment], relay: Handoff | None = None) -> bool:
        """See `Receiver.append`."""
        for segment in segments:
            if segment.positions:
                self._tap(*self._names, segment.columns[0])
        return self._receiver.append(port, segments, relay)

    def call_due(self) -> None:
        """See `Receiver.call_due`."""
        self._receiver.call_due()

    def wait_for_room(self, port: int) -> object:
        """See `Receiver.wait_for_room`."""
        return self._receiver.wait_for_room(port)

    def find_blocker(self, port: int) -> str | None:
        """See `Receiver.find_blocker`."""
        return self._receiver.find_blocker(port)
