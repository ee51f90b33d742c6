"""One inference request on its way: from arrays into a flow, and back to arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream, ModelflowError
from modelflow.http.request import RequestObserver
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.serve.requests.rows import check_buffers, values_of
from modelflow.serve.requests.status import problem_of
from modelflow.stream_io.request import Request
from modelflow.wire.problem import Problem

if TYPE_CHECKING:
    from modelflow.serve.requests.served_model import ServedModel


class InferCall:
    """A request to a served model. For the server's thread, but where it says otherwise."""

    def __init__(
        self,
        model: "ServedModel",
        items: Mapping[str, Sequence[Any]],
        deadline: float | None,
        done: Callable[["InferCall"], None],
        *,
        is_stream: bool = False,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes a call; `ServedModel.send` sends it.

        Args:
            model: What is called.
            items: Those of each input.
            deadline: Seconds from now after which nobody waits for the answer; None: for ever.
            done: Called once, on the server's thread, when `outputs` has something to give; of a
                stream each time when `part` has.
            is_stream: Its buffers are taken one by one, as they come, by `part`.
            context: First content of the dict that the session's units share.
        """
        self.model = model
        self.done = done
        """Called when `outputs` has something to give, or `part`."""
        self._problem: Problem | None = None
        self.began = SYSTEM_CLOCK.now()
        """When it came."""
        self.left_at = self.began
        """When it came out of the flow."""
        on_result = self._came if is_stream else None
        self.request = Request(
            items,
            self._over,
            deadline=deadline,
            context=context,
            on_result=on_result,
        )
        """What goes into the flow."""
        self.rows = self.request.size
        """How many items it has."""
        self.is_over = False
        """The flow has given all of it."""
        self.is_without_axis = False
        """Every input was one value without a batch axis; so are the outputs then."""

    @property
    def is_drained(self) -> bool:
        """Tells of a stream whether `part` has given everything, as far as is known now."""
        return self.request.is_drained

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Has somebody told that it was taken: `ServedModel.send` would have refused it."""
        told(None)

    def watch(self, request_context: RequestObserver) -> None:
        """Has who watches the visit told of its batches; before it goes in."""
        watcher = request_context.watcher()
        if watcher is not None:
            self.request.watch(watcher)

    def cancel(self) -> None:
        """Ends it: nobody waits for the answer any more."""
        self.model.forget(self)

    def give_up(self, problem: Problem) -> None:
        """Ends it without the answer that somebody still waits for."""
        self._problem = problem
        if self.model.withdraw(self):
            self.fail(problem)
        else:
            self.request.cancel()  # which says that it is over

    def fail(self, problem: Problem) -> None:
        """Ends it without an answer, where no flow has it."""
        self._problem = problem
        self.model.time_limit.forget(self)
        self.model.on_end()
        self.done(self)

    def _over(self, _: Request) -> None:
        self.left_at = SYSTEM_CLOCK.now()
        self.model.over(self._end)  # from whichever thread

    def _end(self) -> None:
        self.is_over = True
        limit = self.model.time_limit
        if limit.own:
            limit.forget(self)
        else:
            limit.until.pop(self, None)  # as `TimeLimit.forget`, without a call: most requests
        self.model.admission.on_done()
        self.done(self)

    def _came(self, _: Request) -> None:
        self.model.loop_queue.post(partial(self.done, self))  # from whichever thread

    def part(self) -> tuple[str, Buffer] | None:
        """Returns the next buffer of a stream, with its output's name; None: there is none now.

        Raises:
            EndOfStream: that was all.
            Problem: the request, or one of its items, failed. It is over then.
        """
        figures = self.model.figures
        try:
            found = self._next()
        except Problem as problem:
            figures.on_failure(problem.code, self.rows, SYSTEM_CLOCK.now() - self.began)
            raise
        except EndOfStream:
            figures.on_answers(self.rows, (SYSTEM_CLOCK.now() - self.began,))
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
        """Returns what came out of each output; to be called once.

        Raises:
            Problem: the request, or one of its items, failed.
        """
        figures = self.model.figures
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
        return found

    def outputs(self) -> dict[str, npt.NDArray[Any] | list[Any]]:
        """Returns the same as arrays, where they are: see `values_of`."""
        values: dict[str, npt.NDArray[Any] | list[Any]] = {}
        for name, found in self.buffers().items():
            value = values_of(self.model.outputs[name], found)
            if self.is_without_axis and isinstance(value, np.ndarray) and len(found) == 1:
                value = value[0, ...] if value.ndim else value
            values[name] = value
        return values
