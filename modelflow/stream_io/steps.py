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
    ) -> None:
        """Opens the session.

        Args:
            scheduler: `Flow.scheduler`.
            context: The initial content of the dict that the units of the session share.
            post: Calls a function on the thread of this object. May be called from any thread.

        Raises:
            StreamClosed: The flow does not run, or its graph has no input.
        """
        self._scheduler = scheduler
        self._session = scheduler.create_session()
        self._session.context.update(context)
        self._post = post
        self._steps: deque[StepRequest] = deque()
        self._unsent: deque[tuple[str, Buffer]] = deque()
        self._found: dict[str, deque[Buffer]] = {name: deque() for name in self._session.results}
        self._is_blocked = self._is_closing = False

    @property
    def is_idle(self) -> bool:
        """Returns whether no client waits for a step."""
        return all(step.is_over for step in self._steps)

    @property
    def is_over(self) -> bool:
        """Returns whether the session has ended, and takes no further step."""
        return self._session.is_finished

    def add(self, request: StepRequest, *, is_last: bool) -> None:
        """Appends a step. With ``is_last`` the session ends behind the step."""
        self._steps.append(request)
        self._is_closing = is_last
        for row in range(request.size):
            for port, values in request.inputs.items():
                self._unsent.append((port, wrap_input(values[row])))
        self._go_on()

    def close(self) -> None:
        """Ends the session behind the steps so far."""
        self._is_closing = True
        self._go_on()

    def _go_on(self) -> None:
        """Sends rows and takes results as far as possible, and ends complete steps.

        The rows of a step do not wait for the results of the step before. A unit may need them for
        those results.
        """
        try:
            self._send()
            self._take()
        except Exception as error:  # noqa: BLE001 - every step gets an answer
            self._fail(error)

    def _send(self) -> None:
        submitter, session = self._scheduler.submitter, self._session
        while self._unsent and not self._is_blocked:
            port, buffer = self._unsent[0]
            backpressure = submitter.try_send(session, port, (buffer,))
            if backpressure is None:
                self._unsent.popleft()
            else:
                self._is_blocked = True
                backpressure.on_gone(self._on_room)
        if self._is_closing and not self._unsent:
            submitter.close(session)

    def _take(self) -> None:
        session, found = self._session, self._found
        while self._steps:
            size = self._steps[0].size
            for output, results in session.results.items():
                while len(found[output]) < size and (taken := results.get_nowait()) is not None:
                    found[output].append(unwrap_output(taken))
                    session.progress.took()
            short = [output for output in found if len(found[output]) < size]
            for output in short:
                results = session.results[output]
                results.forget(self._wake)
                results.on_ready(self._wake)
            if short:
                return
            step = self._steps.popleft()
            own = {output: [rows.popleft() for _ in range(size)] for output, rows in found.items()}
            if not step.is_over:
                step.on_result(own)

    def _on_room(self) -> None:
        self._post(self._enter)

    def _enter(self) -> None:
        self._is_blocked = False
        self._go_on()

    def _wake(self) -> None:
        self._post(self._go_on)

    def _fail(self, error: Exception) -> None:
        """Ends the session, and every step with this error."""
        self._scheduler.cancel(self._session)
        self._unsent.clear()
        steps, self._steps = self._steps, deque()
        for step in steps:
            if not step.is_over:
                step.on_failure(error)
