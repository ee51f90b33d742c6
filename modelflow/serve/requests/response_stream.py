"""A request whose buffers are handed over as they come, each when the client has room for it.

What a client does not take stays in its session, whose stream units make no more of it then; no
other request waits for it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.serve.requests.model import Inference
from modelflow.serve.requests.status import problem_of
from modelflow.wire.problem import Problem


class PartReceiver(Protocol):
    """Who takes the parts of an answer."""

    on_room: Callable[[], None]
    """Called when there is room again."""
    on_gone: Callable[[], None]
    """Called when nobody takes any more."""

    @property
    def has_room(self) -> bool:
        """Tells whether a part may be sent now."""

    def send(self, message: Any, /) -> None:
        """Takes a part."""

    def end(self) -> None:
        """Takes note that there is no further part."""


class Form(Protocol):
    """How a protocol says the parts of an answer; None: nothing is sent."""

    def part(self, name: str, buffer: Buffer, /, *, is_last: bool) -> Any | None:
        """Returns what is sent for a buffer of an output; ``is_last``: the end is known."""

    def problem(self, problem: Problem, /) -> Any | None:
        """Returns what is sent in the place of what does not come any more."""

    def end(self) -> Any | None:
        """Returns what is sent behind all buffers."""


class ResponseStream:
    """Brings the buffers of one request to whoever takes them. For the server's thread."""

    def __init__(
        self, form: Form, send: Callable[[Callable[[Inference], None]], Inference]
    ) -> None:
        """Sends the request.

        Args:
            form: How its answer is said.
            send: Sends it as a stream, given what is called when there is something to take.

        Raises:
            Problem: it is not taken.
        """
        self._form = form
        self._taker: PartReceiver | None = None
        self._is_over = self._is_gone = False
        self._call = send(lambda _: self._pump())

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Has somebody told, now or later, that the request was taken, or why it was not."""
        self._call.call_when_taken(told)

    def cancel(self) -> None:
        """Ends the request: nobody waits for it."""
        self._call.cancel()

    def begin(self, taker: PartReceiver) -> None:
        """Gives what has come, and then what comes."""
        self._taker = taker
        taker.on_room, taker.on_gone = self._pump, self._on_cancel
        self._pump()

    def _on_cancel(self) -> None:
        self._is_gone = True
        self._call.cancel()  # what has come is dropped when it tells of its end

    def _pump(self) -> None:
        taker = self._taker
        while taker is not None and not self._is_over and (taker.has_room or self._is_gone):
            try:
                found = self._call.part()
                if found is None:
                    return
                is_last = self._call.is_drained
                message = self._form.part(*found, is_last=is_last)
            except EndOfStream:
                self._finish(taker, self._form.end())
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is not left waiting
                self._finish(taker, self._form.problem(problem_of(error)))
                self._call.cancel()
            else:
                if message is not None:
                    taker.send(message)

    def _finish(self, taker: PartReceiver, message: Any | None) -> None:
        self._is_over = True
        if message is not None:
            taker.send(message)
        taker.end()
