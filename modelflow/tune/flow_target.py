"""A flow in this process as what is loaded."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelflow.errors import DeadlineExceeded
from modelflow.request import Request

if TYPE_CHECKING:
    from modelflow.flow import Flow

__all__ = ["FlowTarget", "Inputs"]

Inputs = Mapping[str, Sequence[Any]]
"""What a request brings: for each input of the graph its values."""


class FlowTarget:
    """A running flow; see `Target`. Requests are sessions of their own."""

    def __init__(self, flow: "Flow", requests: Sequence[Inputs]) -> None:
        """Takes the flow, and what is sent, in turns."""
        self._flow = flow
        self._inputs = requests

    def make(self, number: int, on_end: Callable[[Request], None]) -> Request:
        """Returns request ``number``."""
        return Request(self._inputs[number % len(self._inputs)], on_end)

    def submit(self, requests: Sequence[Request], on_room: Callable[[], None]) -> Sequence[Request]:
        """Sends requests; see `Flow.submit`.

        Raises:
            StreamClosed: the flow does not run any more.
        """
        return self._flow.submit(requests, on_room)

    def outcome(self, request: Request) -> str:
        """Returns ``ok``, ``expired``, or the type of the first error.

        Raises:
            StreamClosed: the flow ended before it was answered.
        """
        for buffers in request.answer().values():
            for buffer in buffers:
                if buffer.error is not None:
                    cause = buffer.error.__cause__ or buffer.error
                    is_late = isinstance(cause, DeadlineExceeded)
                    return "expired" if is_late else type(cause).__name__
        return "ok"

    def cancel(self, request: Request) -> None:
        """Gives up a request."""
        request.cancel()
