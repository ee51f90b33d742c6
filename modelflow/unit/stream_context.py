"""The context of a stream unit or of a source, with the calls that only these units have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from modelflow.buffer import Buffer
from modelflow.quantities import check_seconds
from modelflow.unit.context import Context


class Opening(NamedTuple):
    """One item that starts a session; see `Context.open_session`."""

    values: Mapping[str, Any]
    """The item, by output."""
    context: Mapping[str, Any]
    """The initial content of the session's context."""
    deadline: float | None
    """Seconds after which the session's results are not needed."""
    on_end: Callable[[], None] | None
    """Called once at the end of the session."""


class Admission(Protocol):
    """An interface to start sessions of a holding source from any thread.

    Call `reserve`, `admit` and `release`, in this order. Between `reserve` and `release` the source
    does not end. It also accepts events (`Context.send_event`) while the flow is drained.
    """

    def reserve(self) -> bool:
        """Keeps the source open until `release`; returns False if the source ends or has ended."""

    def admit(self, openings: Sequence[Opening]) -> bool:
        """Starts sessions on the calling thread, without waiting.

        Returns:
            False without room for them; no session was then started. A call of the source should
            emit the items instead.
        """

    def release(self) -> None:
        """Allows the source to end again."""


class StreamContext(Context):
    """The `Context` of a stream unit, and of a source.

    Attributes:
        admission: For a source that opens sessions (`Source`): starts sessions from outside, also
            after the call of this context.
    """

    __slots__ = (
        "_post",
        "admission",
        "event",
        "is_cancelled",
        "is_finished",
        "is_held",
        "openings",
    )

    def __init__(
        self,
        inputs: Mapping[str, list[Buffer]],
        outputs: dict[str, list[Any]],
        session: dict[str, Any],
        state: dict[str, Any],
        stream_meta: dict[str, Any],
        post: Callable[[Any, float], bool],
    ) -> None:
        super().__init__(inputs, outputs, session, state, stream_meta)
        self.event: Any = None
        self.is_cancelled = False
        self.is_finished = False
        self.is_held = False
        self._post = post
        self.admission: Admission | None = None
        self.openings: list[Opening] | None = None

    def open_session(
        self,
        values: Any,
        *,
        context: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Starts a session; see `Context.open_session`."""
        if self.openings is None:
            super().open_session(values)
        else:
            opening = self.opening(values, context=context, deadline=deadline, on_end=on_end)
            self.openings.append(opening)

    def opening(
        self,
        values: Any,
        *,
        context: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> Opening:
        """Returns the opening of a session for `Admission.admit`, with `open_session`'s arguments.

        Raises:
            KeyError: ``values`` lacks an output, or has an unknown output.
            TypeError, ValueError: ``deadline`` is no number.
        """
        if deadline is not None:
            deadline = check_seconds("deadline", deadline)
        is_whole = isinstance(values, Mapping) and values.keys() == self.outputs.keys()
        if not is_whole and len(self.outputs) == 1:
            values = dict.fromkeys(self.outputs, values)
        elif not is_whole:
            message = f"open_session: got {values!r:.80}; expected a value for each of the outputs "
            raise KeyError(message + ", ".join(self.outputs))
        return Opening(values, context or {}, deadline, on_end)

    def send_event(self, event: Any = True, delay: float = 0.0) -> bool:
        """Requests another call; see `Context.send_event`."""
        return self._post(event, delay)

    def hold(self) -> None:
        """Keeps the stream open; see `Context.hold`."""
        self.is_held = True

    def finish(self) -> None:
        """Marks the last output; see `Context.finish`."""
        self.is_finished = True
