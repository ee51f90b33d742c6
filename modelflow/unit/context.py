"""The context of a call of a flow unit: its inputs, and the lists for its outputs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import did_you_mean


class Context:
    """The inputs and outputs of one call of `FlowUnit.process`.

    Only the worker that makes the call uses the context, and only during the call.

    Attributes:
        inputs: Port name -> the buffers of the batch, axis 0; every list has the same length. Their
            arrays are read-only, unless the port is declared ``is_in_place``.
        outputs: Port name -> the list to fill with values. A value is a `Buffer`, any other data
            (wrapped in a buffer), or an exception (only that buffer fails). A normal unit gives one
            value for each input, in order. A condition or a loop gives one value on one output. An
            expand gives the same number of values on every output, a collapse one value on every
            output. A stream unit gives any number of values. A value in the place of an input
            inherits the input's meta, key by key.
        session: The session's context, a dict that all units of the session share. A
            ``Normal(is_per_stream=False)`` gets buffers of several sessions, so its dict is empty.
        state: The unit's own dict for the stream (source and stream kinds), empty at its start.
        stream_meta: The small values that belong to the stream as a whole. Values that a stream
            unit adds before its first output reach every unit behind it. Empty for the same units
            as ``session``.
        event: The value of `send_event`, in the call that it requested, else None.
        is_cancelled: In ``stream_end``: whether the session is cancelled, so its output is dropped.
        is_finished, is_held: Whether `finish` or `hold` was called.
        watchers: Only for a unit that `is_telling`: for each row the watcher of the units' work, or
            None.
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
        """The session's context; see the class."""
        return {} if self._session is None else self._session

    @property
    def state(self) -> dict[str, Any]:
        """The unit's own state; see the class."""
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def stream_meta(self) -> dict[str, Any]:
        """The stream's meta; see the class."""
        return {} if self._stream_meta is None else self._stream_meta

    def input(self, port: str | None = None) -> list[Buffer]:
        """Returns the buffers of ``port``, or of the only input without a name.

        Raises:
            KeyError: The port does not exist, or is not connected.
        """
        if port is None and len(self.inputs) == 1:
            (only,) = self.inputs.values()
            return only
        if port is None or port not in self.inputs:
            raise KeyError(_no_port("input", port, self.inputs))
        return self.inputs[port]

    def emit(self, values: Iterable[Any], port: str | None = None) -> None:
        """Adds ``values`` to the output ``port``, or to the only output without a name.

        Raises:
            KeyError: The port does not exist.
            TypeError: ``values`` is no list of values, or ``port`` is no text.
        """
        if port is None and len(self.outputs) == 1:
            (port,) = self.outputs
        name: object = port  # an author may swap the two arguments
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
        """Adds the result of ``function`` for each buffer of the batch to the only output.

        A ``ValueError`` fails only the buffer that it was raised for, and takes the place of that
        buffer's value. Any other exception fails the call.

        Args:
            function: Called with one buffer of each port; returns a value as for ``outputs``.
            ports: The inputs. None: the only input.

        Raises:
            KeyError: A port does not exist, or is not connected.
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
        """Requests another call of a stream unit or a source, with no input and with ``event``.

        A stream unit can give many buffers for one input in this way (a demuxer), with one call for
        each part. The stream stays open until the call was made. The unit is not called while the
        session's results are not read. After `hold` you may call this later, from any thread.

        Args:
            event: The value of ``ctx.event`` in that call; not None.
            delay: Minimum seconds before the call. No thread waits for it.

        Returns:
            False if the stream has ended, or its session was cancelled.

        Raises:
            RuntimeError: The unit is neither of the stream kind nor a source.
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
        """Starts a session of its own with one item, in a `Source` with ``opens_sessions``.

        An emitted item also starts a session, without the other arguments.

        Args:
            values: The item: a value for the only output, or a mapping with one for each output.
            context: The initial content of the session's context.
            deadline: Seconds from now after which the session's results are not needed.
            on_end: Called once at the end of the session, on the thread that ends the session.

        Raises:
            KeyError: ``values`` lacks an output, or has an unknown output.
            TypeError, ValueError: ``deadline`` is no number.
            RuntimeError: The unit is no such source.
        """
        raise RuntimeError(
            f"open_session is for units of the kind Source(opens_sessions=True); got {values!r:.80}"
        )

    def hold(self) -> None:
        """Keeps the stream open, in a stream unit, until a call that `send_event` requests.

        Use this in a unit that waits for data from elsewhere; the provider of the data calls
        `send_event`. A source that holds is not called again before that.

        Raises:
            RuntimeError: The unit is neither of the stream kind nor a source.
        """
        raise RuntimeError(_NOT_A_STREAM.format("hold"))

    def finish(self) -> None:
        """Marks this call's output, in a source, as the last of the stream.

        Raises:
            RuntimeError: The unit is neither of the stream kind nor a source.
        """
        raise RuntimeError(_NOT_A_STREAM.format("finish"))


def _no_port(what: str, port: str | None, ports: Mapping[str, Any]) -> str:
    names = ", ".join(ports) or "none"
    if port is None:
        return f"name the {what} ({what}s: {names})"
    return f"no {what} {port!r}{did_you_mean(port, ports)} ({what}s: {names})"


_NOT_A_STREAM = "{} is for flow units of the kind 'stream', and sources"
