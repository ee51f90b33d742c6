"""An inference request under way: from arrays into a flow, and back to arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream, ModelflowError
from modelflow.http.request import RequestObserver
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.requests.model import NO_TERMS, Inference, Terms
from modelflow.serve.requests.rows import check_buffers, values_of
from modelflow.serve.requests.status import problem_of
from modelflow.stream_io.request import Request
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.serve.requests.served_model import ServedModel


class InferCall:
    """A request to a served model. For the server's thread, except where noted."""

    cache_key: bytes | None = None
    """The key under which the answer is stored in the model's cache. None for no storing."""

    def __init__(
        self,
        model: "ServedModel",
        items: Mapping[str, Sequence[Any]],
        done: Callable[[Inference], None],
        terms: Terms = NO_TERMS,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Creates a request. `ServedModel.send` sends the request.

        Args:
            model: The model of the request.
            items: The items of each input.
            done: Called on the server's thread, once, when `outputs` can return the answer. For a
                stream, called each time `part` has a buffer.
            terms: The parameters of the request.
            context: First content of the dict that the session's units share.
        """
        self.model = model
        self.figures = model.figures
        """The counts that the request belongs to."""
        self.done = done
        """Called when `outputs` can return the answer, or `part` a buffer."""
        self._problem: Problem | None = None
        self.began = SYSTEM_CLOCK.now()
        """The time at which the request arrived."""
        self.left_at = self.began
        """The time at which the answer left the flow."""
        on_result = self._came if terms.is_stream else None
        self.request: Request = Request(
            items,
            self._over,
            deadline=terms.deadline,
            context=context,
            on_result=on_result,
            is_first=terms.is_first,
        )
        """The request that is submitted to the flow."""
        self.rows = self.request.size
        """The number of items in the request."""
        self.is_over = False
        """The flow has returned the whole answer."""
        self.trace_id = ""
        """The trace of the request, if the trace is sampled."""
        self.is_without_axis = False
        """No input has a batch axis, and neither do the outputs then."""

    @property
    def is_drained(self) -> bool:
        """Tells whether `part` has returned every buffer of a stream that has ended."""
        return self.request.is_drained

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Calls ``told`` with None, because `ServedModel.send` has admitted the request."""
        told(None)

    def watch(self, request_context: RequestObserver) -> None:
        """Reports the batches of a request that is not sent yet to the observer's watcher."""
        self.trace_id = request_context.sampled_trace
        watcher = request_context.watcher()
        if watcher is not None:
            self.request.watch(watcher)

    def cancel(self) -> None:
        """Cancels the request, because its client no longer waits."""
        self.model.forget(self)

    def give_up(self, problem: Problem) -> None:
        """Ends the request with an error for the waiting client."""
        self._problem = problem
        if self.model.withdraw(self):
            self.fail(problem)
        else:
            self.request.cancel()  # which calls `_over`

    def fail(self, problem: Problem) -> None:
        """Ends a request with an error before the flow has taken the request."""
        self._problem = problem
        self.model.time_limit.forget(self)
        self.model.on_end(is_first=self.request.is_first)
        self.done(self)

    def _over(self, _: Request) -> None:
        self.left_at = SYSTEM_CLOCK.now()
        self.model.over(self._end)  # from any thread

    def _end(self) -> None:
        self.is_over = True
        limit = self.model.time_limit
        if limit.own:
            limit.forget(self)
        else:
            limit.until.pop(self, None)  # `TimeLimit.forget` inlined, for the common case
        self.model.admission.on_done(is_first=self.request.is_first)
        self.done(self)

    def _came(self, _: Request) -> None:
        self.model.loop_queue.post(partial(self.done, self))  # from any thread

    def part(self) -> tuple[str, Buffer] | None:
        """Returns the next buffer of a stream, with its output's name, or None if none is ready.

        Raises:
            EndOfStream: the stream has no more buffers.
            Problem: the request, or one of its items, failed. The request is over then.
        """
        figures = self.figures
        try:
            found = self._next()
        except Problem as problem:
            figures.on_failure(problem.code, self.rows, SYSTEM_CLOCK.now() - self.began)
            raise
        except EndOfStream:
            seconds = SYSTEM_CLOCK.now() - self.began
            figures.on_answers(self.rows, (seconds,))
            if self.trace_id:
                figures.on_traces(((self.trace_id, seconds),))
            raise
        return found

    def _next(self) -> tuple[str, Buffer] | None:
        if self._problem is not None:
            raise self._problem
        try:
            found = self.request.next_result()
        except EndOfStream:
            raise
        except ModelflowError as error:
            raise problem_of(error) from error
        if found is not None:
            if not self.is_over:
                self.model.time_limit.renew(self)
            check_buffers(found[1:], self.rows)
        return found

    def buffers(self) -> dict[str, list[Buffer]]:
        """Returns the result buffers of each output. Call only once.

        Raises:
            Problem: the request, or one of its items, failed.
        """
        figures = self.figures
        try:
            if self._problem is not None:
                raise self._problem
            try:
                found = self.request.answer()
            except ModelflowError as error:
                raise problem_of(error) from error
            for buffers in found.values():
                check_buffers(buffers, self.rows)
        except Problem as problem:
            figures.on_failure(problem.code, self.rows, SYSTEM_CLOCK.now() - self.began)
            raise
        now = SYSTEM_CLOCK.now()
        figures.on_answers(self.rows, (now - self.began,), now - self.left_at)
        if self.cache_key is not None and self.model.cache is not None:
            self.model.cache.store(self.cache_key, found)
        if self.trace_id:
            figures.on_traces(((self.trace_id, now - self.began),))
        return found

    def outputs(self) -> dict[str, npt.NDArray[Any] | list[Any]]:
        """Returns the result of each output as an array where possible; see `values_of`."""
        values: dict[str, npt.NDArray[Any] | list[Any]] = {}
        for name, found in self.buffers().items():
            value = values_of(self.model.outputs[name], found)
            if self.is_without_axis and isinstance(value, np.ndarray) and len(found) == 1:
                value = value[0, ...] if value.ndim else value
            values[name] = value
        return values
