"""What a call of a flow unit gets, and where it puts what it gives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import did_you_mean


class Context:
    """What one call of `FlowUnit.process` gets and gives.

    Used by the one worker that makes the call, and not after it.

    Attributes:
        inputs: Port name -> the buffers of the batch, axis 0; every list has the same length.
            Their arrays are read-only, unless the port is declared ``is_in_place``.
        outputs: Port name -> the list to fill with values: a `Buffer`, any other data (wrapped in
            one), or an exception (only that buffer fails). A normal unit gives one value for each
            input, in order; a condition and a loop one value on one output; an expand any number,
            as many on every output; a collapse one on every output; a stream unit any number. A
            value that stands for an input inherits its meta, key by key.
        session: The session's context, a dict shared by all units of the session. Only a
            ``Normal(is_per_stream=False)`` is given buffers of many sessions: there it is empty.
        state: The unit's own dict for the stream (source and stream kinds), empty at its start.
        stream_meta: The small values that belong to the stream as a whole; what a stream unit adds
            before its first output reaches every unit behind it. As ``session``, else empty.
        event: What was given to `send_event`, in the call that it brought about; else None.
        is_cancelled: In ``stream_end``: nobody waits for what it gives.
        is_finished, is_held: `finish` or `hold` was called.
        watchers: Only for a unit that `is_telling`: of each row who is told what units do for it,
            or None.
    """

    __slots__ = ("_session", "_state", "_stream_meta", "inputs", "outputs", "watchers")

    watchers: Sequence[Any]
    event: Any = None
    is_cancelled: bool = False
    is_finished: bool = False
    is_held: bool = False

    def __init__(
        self,
        inputs: Mapping[str, list[Buffer]],
        outputs: dict[str, list[Any]],
        session: dict[str, Any] | None = None,
        state: dict[str, Any] | None = None,
        stream_meta: dict[str, Any] | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._session = session
        self._state = state
        self._stream_meta = stream_meta

    @property
    def session(self) -> dict[str, Any]:
        """See the class."""
        return {} if self._session is None else self._session

    @property
    def state(self) -> dict[str, Any]:
        """See the class."""
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def stream_meta(self) -> dict[str, Any]:
        """See the class."""
        return {} if self._stream_meta is None else self._stream_meta

    def input(self, port: str | None = None) -> list[Buffer]:
        """Returns the buffers of ``port``; of the only input where none is named.

        Raises:
            KeyError: there is no such port, or it is not connected.
        """
        if port is None and len(self.inputs) == 1:
            (only,) = self.inputs.values()
            return only
        if port is None or port not in self.inputs:
            raise KeyError(_no_port("input", port, self.inputs))
        return self.inputs[port]

    def emit(self, values: Iterable[Any], port: str | None = None) -> None:
        """Adds ``values`` to the output ``port``; to the only one where none is named.

        Raises:
            KeyError: there is no such port.
            TypeError: ``values`` is no list of values, but one; or ``port`` is no text.
        """
        if port is None and len(self.outputs) == 1:
            (port,) = self.outputs
        name: object = port  # an author may give them the other way round
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"emit: got {type(name).__name__} for the name of an output; expected "
                "emit([...], 'name')"
            )
        if port is None or port not in self.outputs:
            raise KeyError(_no_port("output", port, self.outputs))
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise TypeError(
                f"emit: got {type(values).__name__}; expected a list of values: emit([...])"
            )
        self.outputs[port].extend(values)

    def emit_each(self, function: Callable[..., Any], *ports: str) -> None:
        """Adds ``function`` of each buffer of the batch to the only output.

        A ``ValueError`` fails the buffer that it was raised for, and no other: it takes the place
        of that buffer's value. Any other exception fails the call.

        Args:
            function: Called with one buffer of each port; returns a value as for ``outputs``.
            ports: The inputs; none named: the only one.

        Raises:
            KeyError: there is no such port, or it is not connected.
        """
        columns = [self.inputs[port] for port in ports] if ports else [self.input()]
        values: list[Any] = []
        for row in zip(*columns, strict=True):
            try:
                values.append(function(*row))
            except ValueError as error:
                values.append(error)
        self.emit(values)

    def send_event(self, event: Any = True, delay: float = 0.0) -> bool:  # noqa: ARG002
        """Has a stream unit, or a source, called again, with no input and ``event``.

        So a stream unit gives many buffers for one (a demuxer), a call at a time. The stream stays
        open until the call was made; the unit is not called while the session's results are not
        read. May also be called later, from any thread, if `hold` was.

        Args:
            event: What ``ctx.event`` is in that call; not None.
            delay: Seconds after which the call is made, at the earliest; no thread waits for it.

        Returns:
            False if the stream has ended, or its session was cancelled.

        Raises:
            RuntimeError: the unit is neither of the stream kind nor a source.
        """
        raise RuntimeError(_NOT_A_STREAM.format("send_event"))

    def open_session(
        self,
        values: Any,
        *,
        context: Mapping[str, Any] | None = None,  # noqa: ARG002
        deadline: float | None = None,  # noqa: ARG002
        on_end: Callable[[], None] | None = None,  # noqa: ARG002
    ) -> None:
        """Begins a session of its own with one item, in a `Source` with ``opens_sessions``.

        An item that is emitted begins one, too, with nothing else said of it.

        Args:
            values: The item: a value for the only output, or a mapping with one for each output.
            context: What the session's context begins with.
            deadline: Seconds from now after which nobody waits for what comes of it.
            on_end: Called once when the session is over, on whichever thread ends it.

        Raises:
            KeyError: ``values`` lacks an output, or has one more.
            TypeError, ValueError: ``deadline`` is no number.
            RuntimeError: the unit is no such source.
        """
        raise RuntimeError(
            f"open_session is for units of the kind Source(opens_sessions=True); got {values!r:.80}"
        )

    def hold(self) -> None:
        """Keeps the stream open, in a stream unit, until a call that follows `send_event`.

        For a unit that has asked somebody else for data: whoever has it calls `send_event`. A
        source that holds is not called again before.

        Raises:
            RuntimeError: the unit is neither of the stream kind nor a source.
        """
        raise RuntimeError(_NOT_A_STREAM.format("hold"))

    def finish(self) -> None:
        """Says, in a source, that this call's output was the last of the stream.

        Raises:
            RuntimeError: the unit is neither of the stream kind nor a source.
        """
        raise RuntimeError(_NOT_A_STREAM.format("finish"))


def _no_port(what: str, port: str | None, ports: Mapping[str, Any]) -> str:
    names = ", ".join(ports) or "none"
    if port is None:
        return f"name the {what} ({what}s: {names})"
    return f"no {what} {port!r}{did_you_mean(port, ports)} ({what}s: {names})"


_NOT_A_STREAM = "{} is for flow units of the kind 'stream', and sources"
