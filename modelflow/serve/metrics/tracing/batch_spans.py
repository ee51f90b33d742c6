"""The spans of batches that several requests were in: each links to them all."""

import threading
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Link, Tracer, get_current_span

from modelflow.runtime.session.watcher import Part

_ALONE = 1


class _Batch(NamedTuple):
    """One that a worker has been called for.

    Attributes:
        part: What is known of it, by its first request.
        offset: What added to the runtime's clock gives the time of day, in nanoseconds.
        contexts: That of each sampled request with rows in it.
    """

    part: Part
    offset: int
    contexts: list[Context]


class BatchSpans:
    """Makes a span of a batch, once, where it had rows of more than one sampled request.

    A span has one parent, a batch has many: it stands below the request that came first in it, so
    that it is sampled as that is, and links to every one. From any thread.
    """

    def __init__(self, tracer: Tracer) -> None:
        """Begins with none.

        Args:
            tracer: What makes spans.
        """
        self._tracer = tracer
        self._lock = threading.Lock()
        # A worker tells of all of one batch before it takes the next: there is one at a time.
        self._open: dict[tuple[str, str, str], _Batch] = {}

    def on_call(self, model: str, part: Part, offset: int, context: Context) -> None:
        """Notes a request that was in a batch.

        Args:
            model: Whose graph it is: models may have nodes of the same name.
            part: What was called.
            offset: What added to the runtime's clock gives the time of day, in nanoseconds.
            context: That of the request's span.
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
        """Makes the spans of batches of a request that is over."""
        with self._lock:
            keys = [key for key, batch in self._open.items() if context in batch.contexts]
            batches = [self._open.pop(key) for key in keys]
        for batch in batches:
            self._make(batch)

    def _make(self, batch: _Batch) -> None:
        part = batch.part
        spans = (get_current_span(context).get_span_context() for context in batch.contexts)
        contexts = {span.span_id: span for span in spans}  # of several rows one request may come
        if len(contexts) == _ALONE:  # whose span of the node says everything
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
