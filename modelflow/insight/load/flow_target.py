"""A running flow in this process as the target of a load test."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError, ModelflowError
from modelflow.insight.load.target import Attempt, Outcome
from modelflow.stream_io import wrap_input
from modelflow.stream_io.request import Request, submit, submit_rows

if TYPE_CHECKING:
    from modelflow.flow import Flow


class FlowTarget:
    """The target of a load test that sends requests to a running flow in this process.

    It sends its rows in a cycle; each request has one value for each input. It has no thread, and
    uses only the public interface of the flow. If every row passes the graph independently,
    requests that are due together are submitted as a batch (`submit_rows`). In any other graph,
    each request is a session (`submit`).

    A request fails if an output buffer has an error. Its outcome is then the name of the exception
    that the unit raised. Errors of rows that end at a sink are not visible here.
    """

    def __init__(self, flow: "Flow", rows: Sequence[Mapping[str, Any]]) -> None:
        """Checks and prepares the rows; sends nothing.

        Args:
            flow: A running flow; it may have other users.
            rows: The rows to send, in a cycle. Each has a value or a `Buffer` for each input.

        Raises:
            ConfigError: The graph has no inputs, `rows` is empty, or a row does not match the
                inputs.
            StreamClosed: The flow does not run.
        """
        self._flow = flow
        self._check(rows)
        self._place = 0
        self._is_row_by_row = flow.scheduler.is_row_by_row
        self._rows: list[Buffer] = []
        self._inputs: list[dict[str, Sequence[Any]]] = []
        if self._is_row_by_row:
            self._rows = [wrap_input(value) for row in rows for value in row.values()]
        else:
            self._inputs = [{port: (value,) for port, value in row.items()} for row in rows]

    def _check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        name, inputs = self.name, list(self._flow.graph.inputs)
        if not inputs:
            raise ConfigError(f"{name}: the graph has no inputs, so no requests can be sent to it")
        if not rows:
            raise ConfigError(f"{name}: got no rows to send; expected at least one")
        for number, row in enumerate(rows):
            if row.keys() != set(inputs):
                raise ConfigError(
                    f"{name}: row {number} is for {sorted(row)}; expected {sorted(inputs)}"
                )

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._flow.graph.name

    def submit(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:
        """See `Target`.

        Raises:
            StreamClosed: The flow has ended.
        """
        submit = self._submit_rows if self._is_row_by_row else self._submit_requests
        return submit(attempts, on_room)

    def cancel(self, attempt: Attempt) -> None:
        """See `Target`."""
        if isinstance(attempt.handle, Request):
            attempt.handle.cancel()
        elif attempt.handle is not None:
            submitted, position = attempt.handle
            submitted.cancel(position)

    def _submit_rows(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:
        count, place = len(self._rows), self._place
        rows = [self._rows[(place + number) % count].twin() for number in range(len(attempts))]
        riders = _BatchedAttempts(attempts)
        submitted = submit_rows(self._flow.scheduler, rows, riders, on_room)
        for position in range(submitted.count):
            attempts[position].handle = submitted, position
        self._place = (place + submitted.count) % count
        return submitted.count

    def _submit_requests(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:
        for attempt in attempts:
            if attempt.handle is None:  # else it was submitted before and refused for lack of room
                attempt.handle = Request(self._inputs[self._place], partial(_end, attempt))
                self._place = (self._place + 1) % len(self._inputs)
        requests = [attempt.handle for attempt in attempts]
        return len(requests) - len(submit(self._flow.scheduler, requests, on_room))


class _BatchedAttempts:
    """The requests of one `submit_rows` call, as members of a request batch (`BatchMembers`)."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts

    def on_result(self, requests: Sequence[int], found: Mapping[str, Sequence[Buffer]]) -> None:
        for place, number in enumerate(requests):
            buffers = [column[place] for column in found.values()]
            self._attempts[number].on_end(_outcome_of(buffers))

    def on_failure(self, requests: Sequence[int], failure: Exception) -> None:
        for number in requests:
            self._attempts[number].on_end(_name_of(failure))


def _end(attempt: Attempt, request: Request) -> None:
    """Reports the outcome of a request that has its own session."""
    try:
        found = request.answer()
    except ModelflowError as error:
        attempt.on_end(_name_of(error))
        return
    attempt.on_end(_outcome_of([one for column in found.values() for one in column]))


def _outcome_of(buffers: Sequence[Buffer]) -> str:
    for buffer in buffers:
        if buffer.error is not None:
            return _name_of(buffer.error)
    return Outcome.OK


def _name_of(error: Exception) -> str:
    """Returns the class name of the unit's exception, or else of the error itself."""
    return type(error.__cause__ or error).__name__
