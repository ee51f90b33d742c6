"""The spans of the nodes that a request passes: one a node, over all batches that it is in."""

import logging
import threading
import time
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode, Tracer

from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.session.watcher import Part
from modelflow.serve.metrics.tracing.batch_spans import BatchSpans

if TYPE_CHECKING:
    from collections.abc import Iterable


logger = logging.getLogger(__name__)


class NodeSpans:
    """Makes a span of all that a node did for one request; a `Watcher`.

    Not one a call: a stream unit is called for every token, a large request is many batches.
    """

    def __init__(self, tracer: Tracer, parent: Context, batches: BatchSpans, model: str) -> None:
        """Begins with no node.

        Args:
            tracer: What makes spans.
            parent: The context that has the request's span.
            batches: Who makes the spans of batches, for all requests.
            model: What the request asks.
        """
        self._tracer = tracer
        self._batches, self._model = batches, model
        self._parent = parent
        # Of each request anew: the two clocks drift apart.
        self._offset = time.time_ns() - _nanoseconds(SYSTEM_CLOCK.now())
        self._lock = threading.Lock()
        # By node and unit: the node of a part that is elsewhere bears the name of one in it.
        self._nodes: dict[tuple[str, str], _Tally] | None = {}  # None: it is over

    def on_call(self, part: Part) -> None:
        """Notes a call; of one that comes when all is over, a span is made at once."""
        with self._lock:
            if self._nodes is not None:
                self._nodes.setdefault((part.node, part.unit), _Tally(part)).add(part)
                late = None
            else:
                late = _Tally(part)
                late.add(part)
        try:
            if late is not None:
                self._make([late])
            if part.rows:
                self._batches.on_call(self._model, part, self._offset, self._parent)
        except Exception:  # of somebody's processor of spans: no matter of the flow's
            logger.exception("traces: the span of node %r could not be made", part.node)

    def over(self) -> None:
        """Makes the spans."""
        with self._lock:
            nodes, self._nodes = self._nodes, None
        self._make((nodes or {}).values())
        self._batches.over(self._parent)

    def _make(self, tallies: "Iterable[_Tally]") -> None:
        for tally in tallies:
            first, error = tally.first, tally.error
            span = self._tracer.start_span(
                first.node,
                context=self._parent,
                attributes={
                    "modelflow.node": first.node,
                    "modelflow.unit": first.unit,
                    "modelflow.device": str(first.device),
                    "modelflow.rows": tally.rows,
                    "modelflow.calls": tally.calls,
                    "modelflow.batch_size": tally.batch_size,
                },
                start_time=self._offset + _nanoseconds(tally.start),
            )
            if error is not None:
                span.set_attribute("error.type", type(error.__cause__ or error).__qualname__)
                span.set_status(Status(StatusCode.ERROR, error.message))
            span.end(self._offset + _nanoseconds(tally.end))


class _Tally:
    """What a node has done.

    Attributes:
        first: Its first call that was told of.
        start: When the first one began.
        end: When the last one ended.
        calls: How many there were.
        rows: Rows of the request in all of them.
        batch_size: Rows of the largest batch.
        error: Why the first row that failed did; None: none has.
    """

    def __init__(self, first: Part) -> None:
        self.first = first
        self.start, self.end, self.error = first.start, first.end, first.error
        self.calls = self.rows = self.batch_size = 0

    def add(self, part: Part) -> None:
        """Adds a call, in whichever order they come."""
        self.start, self.end = min(self.start, part.start), max(self.end, part.end)
        self.calls += 1
        self.rows += part.rows
        self.batch_size = max(self.batch_size, part.batch_size)
        self.error = self.error or part.error


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
