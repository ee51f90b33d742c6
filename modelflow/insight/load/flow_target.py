"""A running flow in this process, as what load is put on."""

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
    """Sends requests to a running flow: rows in turns, each a request of one value an input.

    It has no thread, and asks nothing of the flow but what any user of it may. Where every row
    passes the graph by itself, requests that are due together travel together (see
    `submit_rows`); in any other graph each is a session (`submit`).

    A request fails where a buffer that comes out is in error; it is then named after what the unit
    raised. What fails in front of a sink, and so comes out nowhere, is not seen.
    """

    def __init__(self, flow: "Flow", rows: Sequence[Mapping[str, Any]]) -> None:
        """Looks at the rows; sends nothing.

        Args:
            flow: It runs; it may have other users.
            rows: What is sent, in turns: for each input of the graph its value, or the `Buffer`.

        Raises:
            ConfigError: the graph has no inputs, there are no rows, or a row is not for its inputs.
            StreamClosed: the flow does not run.
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
        """The graph's."""
        return self._flow.graph.name

    def submit(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:
        """See `Target`.

        Raises:
            StreamClosed: the flow has ended.
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
            if attempt.handle is None:  # one for which there was no room is submitted again
                attempt.handle = Request(self._inputs[self._place], partial(_end, attempt))
                self._place = (self._place + 1) % len(self._inputs)
        requests = [attempt.handle for attempt in attempts]
        return len(requests) - len(submit(self._flow.scheduler, requests, on_room))


class _BatchedAttempts:
    """Requests that travel in a request batch (`BatchMembers`)."""

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
    """Says what became of a request that travels by itself."""
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
    """Returns the name of what was raised, by a unit's author where it was one's code."""
    return type(error.__cause__ or error).__name__
