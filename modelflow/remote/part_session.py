"""A session of a part's flow that is fed from elsewhere; see `modelflow.remote.remote_session`."""

import contextlib
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.flow import Flow
from modelflow.remote.message import Answers, Rows, buffers_of, column_of

if TYPE_CHECKING:
    from modelflow.stream_io import StreamIO

__all__ = ["DROPPED", "PartSession"]

DROPPED = "node.dropped"
"""The column of what has come to nodes that nothing follows: errors, and None for what was none.

No output has a name with a dot.
"""


# Seconds that a row waits for room before what has come out is taken, and a sign of life is given.
_ROOM = 0.25
# Seconds that an exchange of no rows waits for the first result.
_PULL = 0.25


class PartSession:
    """The session; the first one of a flow has those of its sources. For one thread at a time."""

    def __init__(self, flow: Flow, dropped: SimpleQueue[Buffer] | None) -> None:
        """Opens it in a flow that runs.

        Args:
            flow: The flow.
            dropped: Of its first session: what the flow gives what comes in error to a node that
                nothing follows.
        """
        self._outputs = flow.graph.outputs
        self._input = flow.create_stream_io() if flow.graph.inputs else None
        self._streams = [] if dropped is None else list(flow.source_streams.values())
        self._dropped = dropped or SimpleQueue()
        if self._input is not None:
            self._streams.append(self._input)
            self._input._session.on_error = self._dropped.put
        self._open = list(self._streams)
        self._flow = flow
        origins = flow.plan.origins.values()
        self._ends = {node for one in origins for node in one.terminals} - {*self._outputs}
        # Of what has come there how much was told of, and how many errors.
        self._told = self._failed = 0

    def exchange(self, rows: Rows, sign: Callable[[bool], None]) -> Answers:
        """Puts rows in, and returns what has come out of it since the last time.

        Args:
            rows: The rows.
            sign: Called while they wait for room.
        """
        if rows.is_cancelled:
            for stream in self._streams:
                stream.cancel()
            return Answers({}, is_over=True)
        found: dict[str, list[Buffer]] = {output: [] for output in self._outputs}
        inputs = {port: buffers_of(column) for port, column in rows.columns.items()}
        for place, deadline in enumerate(rows.remaining):
            for port, buffers in inputs.items():
                while not self._is_put(port, buffers[place], deadline):
                    self._take(found)
                    sign(False)
        if rows.is_last and self._input is not None:
            self._input.close_input()
        self._take(found)
        if not rows and not any(found.values()):
            self._wait()
            self._take(found)
        found[DROPPED] = self._ended()
        columns = {output: column_of(buffers) for output, buffers in found.items()}
        return Answers(columns, is_over=not (self._open or self._lacks_dropped()))

    def _lacks_dropped(self) -> bool:
        """Tells whether something was dropped that is not told yet: that comes at once."""
        return self._failed < sum(stream.error_count for stream in self._streams)

    def _ended(self) -> list[Buffer]:
        stats = self._flow.stats() if self._ends else {}
        come = sum(stats[node].buffers for node in self._ends)
        errors = []
        with contextlib.suppress(Empty):
            while True:
                errors.append(self._dropped.get(timeout=_PULL if self._lacks_dropped() else 0.0))
        self._failed += len(errors)
        others = max(0, come - self._told - len(errors))
        self._told += others + len(errors)
        return errors + [Buffer(None)] * others

    def _is_put(self, port: str, buffer: Buffer, deadline: float | None) -> bool:
        assert self._input is not None  # else no row comes
        try:
            self._input.send(port, buffer, timeout=_ROOM, deadline=deadline)
        except TimeoutError:
            return False
        return True

    def _wait(self) -> None:
        """Waits for something to come out, or for the end, of the session that is open longest."""
        if self._open:
            stream = self._open[0]
            try:
                if stream.outputs:
                    stream.wait_ready(stream.outputs[0], timeout=_PULL)
                else:
                    stream.wait(_PULL)
            except TimeoutError:
                return

    def _take(self, found: dict[str, list[Buffer]]) -> None:
        is_over = [stream.wait(0) for stream in self._open]  # before: what comes then is taken
        for stream in self._open:
            for port in stream.outputs:
                found[port].extend(_ready(stream, port))
        self._open = [one for one, over in zip(self._open, is_over, strict=True) if not over]


def _ready(stream: "StreamIO", port: str) -> Iterator[Buffer]:
    while True:
        try:
            yield stream.recv_buffer(port, timeout=0)
        except (TimeoutError, EndOfStream):
            return
