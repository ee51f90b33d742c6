"""A session that gets its rows in steps, and reports the results of each step by a callback.

Example: a client sends the frames of a video in ten requests. Each request is a step of one
session, so a unit that follows objects keeps its state from step to step. The graph has exactly one
result for each row (`Scheduler.single_outputs`). A step of three rows has therefore ended when
three results are there at each output.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from modelflow.errors import Cancelled
from modelflow.stream_io import unwrap_output, wrap_input
from modelflow.stream_io.request import Request

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.runtime.scheduler import Scheduler


class StepRequest(Request):
    """A request that is one step of a `SteppedSession`."""

    @property
    def is_submitted(self) -> bool:
        """Returns True, because the session takes the request at once."""
        return True

    @property
    def is_over(self) -> bool:
        """Returns whether the callback for the end was called."""
        return self._on_end is None

    def cancel(self) -> None:
        """Makes `answer` raise `Cancelled`. Rows inside the graph still change its state."""
        if not self.is_over:
            self.on_failure(Cancelled("the request was cancelled"))


class SteppedSession:
    """A session of a running flow that gets one `StepRequest` after the other, in order.

    All methods are for one thread. The runtime calls back on other threads, which only post.
    """

    def __init__(
        self,
        scheduler: "Scheduler",
        context: Mapping[str, Any],
        post: Callable[[Callable[[], None]], object],
        on_idle: Callable[[], object],
    ) -> None:
        """Opens the session.

        Args:
            scheduler: `Flow.scheduler`.
            context: The initial content of the dict that the units of the session share.
            post: Calls a function on the thread of this object. May be called from any thread.
            on_idle: Called when the last step so far has ended, or the session has failed.

        Raises:
            StreamClosed: The flow does not run, or its graph has no input.
        """
        self._scheduler = scheduler
        self._session = scheduler.create_session()
        self._session.context.update(context)
        self._post = post
        self._on_idle = on_idle
        self._steps: deque[tuple[StepRequest, bool]] = deque()
        self._unsent: deque[tuple[str, Buffer]] = deque()
        self._found: dict[str, list[Buffer]] = {}
        self._is_closing = self._has_begun = False

    @property
    def is_idle(self) -> bool:
        """Returns whether every step has ended."""
        return not self._steps

    @property
    def is_over(self) -> bool:
        """Returns whether the session has ended, so it takes no further step."""
        return self._session.is_finished

    def add(self, request: StepRequest, *, is_last: bool) -> None:
        """Appends a step. With ``is_last`` the session ends behind the step."""
        self._steps.append((request, is_last))
        if len(self._steps) == 1:
            self._go_on()

    def close(self) -> None:
        """Ends the session behind the steps so far."""
        self._is_closing = True
        if self.is_idle:
            self._scheduler.submitter.close(self._session)

    def _go_on(self) -> None:
        """Sends rows and takes results as far as possible, and ends complete steps."""
        try:
            while self._steps and self._is_step_done():
                request, is_last = self._steps.popleft()
                self._has_begun = False
                self._is_closing = self._is_closing or is_last
                if not request.is_over:
                    request.on_result(self._found)
            if not self._steps and self._is_closing:
                self._scheduler.submitter.close(self._session)
        except Exception as error:  # noqa: BLE001 - every step gets an answer
            self._fail(error)
        if not self._steps:
            self._on_idle()

    def _is_step_done(self) -> bool:
        request, is_last = self._steps[0]
        submitter, session = self._scheduler.submitter, self._session
        if not self._has_begun:
            if request.is_over:  # its client has gone before its turn
                self._found = {}
                return True
            self._has_begun = True
            self._found = {output: [] for output in session.results}
            self._unsent.extend(
                (port, wrap_input(values[row]))
                for row in range(request.size)
                for port, values in request.inputs.items()
            )
        while self._unsent:
            port, buffer = self._unsent[0]
            backpressure = submitter.try_send(session, port, (buffer,))
            if backpressure is not None:
                backpressure.on_gone(self._wake)
                break
            self._unsent.popleft()
        if is_last and not self._unsent:
            submitter.close(session)
        is_done = not self._unsent
        for output, results in session.results.items():
            found = self._found[output]
            while len(found) < request.size and (taken := results.get_nowait()) is not None:
                found.append(unwrap_output(taken))
                session.progress.took()
            if len(found) < request.size:
                is_done = False
                results.forget(self._wake)
                results.on_ready(self._wake)
        return is_done

    def _wake(self) -> None:
        self._post(self._go_on)

    def _fail(self, error: Exception) -> None:
        """Ends the session, and every step with this error."""
        self._scheduler.cancel(self._session)
        steps, self._steps = self._steps, deque()
        for request, _ in steps:
            if not request.is_over:
                request.on_failure(error)
