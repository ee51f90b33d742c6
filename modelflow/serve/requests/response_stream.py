"""Streamed responses: a result buffer is sent as soon as the client has room for the buffer.

Buffers that a client does not read stay in the session of the request. The stream units of that
session then pause. No other request waits.
"""

from collections.abc import Callable
from typing import Any, Protocol

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.serve.requests.model import Inference
from modelflow.serve.requests.status import problem_of
from modelflow.wire.problem import Problem


class PartReceiver(Protocol):
    """The receiver of the parts of a streamed answer."""

    on_room: Callable[[], None]
    """Called when the receiver has room again."""
    on_gone: Callable[[], None]
    """Called when the client has disconnected."""

    @property
    def has_room(self) -> bool:
        """Tells whether a part may be sent now."""

    def send(self, message: Any, /) -> None:
        """Sends a part."""

    def end(self) -> None:
        """Ends the answer after the last part."""


class Form(Protocol):
    """The format of a streamed answer in a protocol. A method returns None to send nothing."""

    def part(self, name: str, buffer: Buffer, /, *, is_last: bool) -> Any | None:
        """Returns the message for a buffer of an output.

        Args:
            name: The output.
            buffer: The buffer.
            is_last: The stream is known to have no further buffer.
        """

    def problem(self, problem: Problem, /) -> Any | None:
        """Returns the message that replaces the missing rest of the answer."""

    def end(self) -> Any | None:
        """Returns the message after the last buffer."""


class ResponseStream:
    """A stream of result buffers from a request to its receiver. For the server's thread."""

    def __init__(
        self, form: Form, send: Callable[[Callable[[Inference], None]], Inference]
    ) -> None:
        """Sends the request.

        Args:
            form: The format of the answer.
            send: Sends the request as a stream. Its argument is called when a part is ready.

        Raises:
            Problem: the model refuses the request.
        """
        self._form = form
        self._taker: PartReceiver | None = None
        self._is_over = self._is_gone = False
        self._call = send(lambda _: self._pump())

    def call_when_taken(self, told: Callable[[Problem | None], object]) -> None:
        """Calls ``told``, now or later, with None or the reason for a refusal."""
        self._call.call_when_taken(told)

    def cancel(self) -> None:
        """Cancels the request, because its client no longer waits."""
        self._call.cancel()

    def begin(self, taker: PartReceiver) -> None:
        """Sends the buffers that are ready, and then each further buffer."""
        self._taker = taker
        taker.on_room, taker.on_gone = self._pump, self._on_cancel
        self._pump()

    def _on_cancel(self) -> None:
        self._is_gone = True
        self._call.cancel()  # `_pump` drops the remaining buffers when the request ends

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
            except Exception as error:  # noqa: BLE001 - every client gets an answer
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
