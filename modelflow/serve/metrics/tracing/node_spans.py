"""The spans of the nodes that a request passes, one per node over all batches."""

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
    """The maker of one span per node for a request; a `Watcher`.

    A span covers all calls of the node for the request. A span per call would be too many. A stream
    unit is called for every token, and a large request is in many batches.
    """

    def __init__(self, tracer: Tracer, parent: Context, batches: BatchSpans, model: str) -> None:
        """Starts without nodes.

        Args:
            tracer: The tracer that creates spans.
            parent: The context with the request's span.
            batches: The maker of batch spans, shared by all requests.
            model: The name of the model.
        """
        self._tracer = tracer
        self._batches, self._model = batches, model
        self._parent = parent
        # Computed for each request, because the two clocks drift apart.
        self._offset = time.time_ns() - _nanoseconds(SYSTEM_CLOCK.now())
        self._lock = threading.Lock()
        # By node and unit, because the node of a remote part of the graph has the same name as one
        # of its inner nodes.
        self._nodes: dict[tuple[str, str], _Tally] | None = {}  # None after the end

    def on_call(self, part: Part) -> None:
        """Records a call. A call that is reported after `over` gets its own span at once."""
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
        except Exception:  # an error in a user's span processor must not stop the flow
            logger.exception("traces: the span of node %r could not be made", part.node)

    def over(self) -> None:
        """Creates the spans of all nodes."""
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
    """The totals of a node's calls for one request.

    Attributes:
        first: The first reported call.
        start: The start of the first call.
        end: The end of the last call.
        calls: The number of calls.
        rows: The rows of the request in all calls.
        batch_size: The rows of the largest batch.
        error: The first reported error, or None.
    """

    def __init__(self, first: Part) -> None:
        self.first = first
        self.start, self.end, self.error = first.start, first.end, first.error
        self.calls = self.rows = self.batch_size = 0

    def add(self, part: Part) -> None:
        """Adds a call. The order of calls does not matter."""
        self.start, self.end = min(self.start, part.start), max(self.end, part.end)
        self.calls += 1
        self.rows += part.rows
        self.batch_size = max(self.batch_size, part.batch_size)
        self.error = self.error or part.error


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
