"""What a call of a stream unit, or of a source, gets beside what every unit gets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from modelflow.buffer import Buffer
from modelflow.quantities import check_seconds
from modelflow.unit.context import Context


class Opening(NamedTuple):
    """One item that begins a session; see `Context.open_session`."""

    values: Mapping[str, Any]
    """The item, by output."""
    context: Mapping[str, Any]
    """What the session's context begins with."""
    deadline: float | None
    """Seconds after which nobody waits for what comes of it."""
    on_end: Callable[[], None] | None
    """Called once when the session is over."""


class Admission(Protocol):
    """How sessions of a source that holds begin beside its own thread; from any thread.

    Whoever has something to begin reserves, admits it, and releases: in between the source does not
    end, and takes an event (`Context.send_event`) also where the flow is being drained.
    """

    def reserve(self) -> bool:
        """Keeps the source from ending until `release`; False: it is over, or ends."""

    def admit(self, openings: Sequence[Opening]) -> bool:
        """Begins sessions, on the calling thread; waits for nothing.

        Returns:
            False: there is no room, and none was begun; a call of the source should give them.
        """

    def release(self) -> None:
        """Lets the source end."""


class StreamContext(Context):
    """The `Context` of a stream unit, and of a source.

    Attributes:
        admission: Of a source that opens sessions (`Source`): how sessions begin from outside, also
            behind the call that this context was made for.
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
        """See `Context.open_session`."""
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
        """Returns what begins a session, for `Admission.admit`; as `open_session` takes it.

        Raises:
            KeyError: ``values`` lacks an output, or has one more.
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
        """See `Context.send_event`."""
        return self._post(event, delay)

    def hold(self) -> None:
        """See `Context.hold`."""
        self.is_held = True

    def finish(self) -> None:
        """See `Context.finish`."""
        self.is_finished = True
