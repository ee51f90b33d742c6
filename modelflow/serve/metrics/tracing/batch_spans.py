"""The spans of batches with several requests. Each span links to all of its requests."""

import threading
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Link, Tracer, get_current_span

from modelflow.runtime.session.watcher import Part

_ALONE = 1


class _Batch(NamedTuple):
    """A batch for which a worker was called.

    Attributes:
        part: The part of the first request in the batch.
        offset: Nanoseconds to add to the runtime's clock for the time of day.
        contexts: The span context of each sampled request with rows in the batch.
    """

    part: Part
    offset: int
    contexts: list[Context]


class BatchSpans:
    """The maker of spans for batches with rows of more than one sampled request.

    A span can have only one parent. The span of a batch is a child of the first reported request,
    because it is then sampled like this request. It links to every request in the batch. Call the
    methods from any thread.
    """

    def __init__(self, tracer: Tracer) -> None:
        """Starts without batches.

        Args:
            tracer: The tracer that creates spans.
        """
        self._tracer = tracer
        self._lock = threading.Lock()
        # By model, worker and node. A worker reports all parts of a batch before its next batch, so
        # each key has at most one open batch.
        self._open: dict[tuple[str, str, str], _Batch] = {}

    def on_call(self, model: str, part: Part, offset: int, context: Context) -> None:
        """Records a request that was in a batch.

        Args:
            model: The name of the model, because models may have nodes of the same name.
            part: The part of the request in the batch.
            offset: Nanoseconds to add to the runtime's clock for the time of day.
            context: The context of the request's span.
        """
        key = (model, part.track, part.node)
        with self._lock:
            batch = self._open.get(key)
            if batch is not None and batch.part.start == part.start:
                batch.contexts.append(context)
                return
            self._open[key] = _Batch(part, offset, [context])
        if batch is not None:
            self._make(batch)

    def over(self, context: Context) -> None:
        """Creates the spans of the open batches of a finished request."""
        with self._lock:
            keys = [key for key, batch in self._open.items() if context in batch.contexts]
            batches = [self._open.pop(key) for key in keys]
        for batch in batches:
            self._make(batch)

    def _make(self, batch: _Batch) -> None:
        part = batch.part
        spans = (get_current_span(context).get_span_context() for context in batch.contexts)
        # a request may have several rows in the batch
        contexts = {span.span_id: span for span in spans}
        if len(contexts) == _ALONE:  # the node's span of this request has the same data
            return
        span = self._tracer.start_span(
            f"{part.node} batch",
            context=batch.contexts[0],
            links=[Link(context) for context in contexts.values()],
            attributes={
                "modelflow.node": part.node,
                "modelflow.unit": part.unit,
                "modelflow.device": str(part.device),
                "modelflow.batch.rows": part.batch_size,
                "modelflow.batch.requests": len(contexts),
                "modelflow.worker": part.track,
            },
            start_time=batch.offset + int(part.start * 1e9),
        )
        span.end(batch.offset + int(part.end * 1e9))
