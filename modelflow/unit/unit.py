"""What the author of a flow unit must know, in one file.

A unit's life: the constructor stores, `FlowUnit.open` loads, `FlowUnit.process` runs as often as
there are batches, `FlowUnit.close` is called exactly once if ``open`` returned, also after errors.
Each worker thread has an instance of its own, so unit code needs no locks; a unit whose spec says
``is_shared`` has one instance a node and is called by several threads at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from modelflow.buffer import Buffer
from modelflow.device import CPU, Device
from modelflow.errors import did_you_mean
from modelflow.unit.spec import FlowUnitSpec
from modelflow.wire.tensor import TensorSpec

__all__ = ["Admission", "Context", "FlowUnit", "Opening", "StreamContext"]


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
        session: The session's context, a dict shared by all units of the session. Only a normal
            unit that is not ``is_per_stream`` is given buffers of many sessions: there it is empty.
        state: The unit's own dict for the stream (source and stream kinds), empty at its start.
        stream_meta: The small values that belong to the stream as a whole; what a stream unit adds
            before its first output reaches every unit behind it. As ``session``, else empty.
        event: What was given to `send_event`, in the call that it brought about; else None.
        is_cancelled: In ``stream_end``: nobody waits for what it gives.
        is_finished, is_held: `finish` or `hold` was called.
    """

    __slots__ = ("_session", "_state", "_stream_meta", "inputs", "outputs")

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
            TypeError: ``values`` is no list of values, but one.
        """
        if port is None and len(self.outputs) == 1:
            (port,) = self.outputs
        if port is None or port not in self.outputs:
            raise KeyError(_no_port("output", port, self.outputs))
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            message = f"emit: got {type(values).__name__}; expected a list of values: emit([...])"
            raise TypeError(message)
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
        """Begins a session of its own with one item, in a source that is ``is_session_opened``.

        An item that is emitted begins one, too, with nothing else said of it.

        Args:
            values: The item: a value for the only output, or a mapping with one for each output.
            context: What the session's context begins with.
            deadline: Seconds from now after which nobody waits for what comes of it.
            on_end: Called once when the session is over, on whichever thread ends it.

        Raises:
            KeyError: ``values`` lacks an output, or has one more.
            RuntimeError: the unit is no such source.
        """
        message = f"open_session is for sources that are is_session_opened; got {values!r:.80}"
        raise RuntimeError(message)

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
        admission: Of a source that is ``is_session_opened``: how sessions begin from outside, also
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
        """
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


class FlowUnit:
    """The base class of flow units: override what you need.

    ``SPEC`` describes the unit: give it in the class, or register the class by a spec of its own.
    A unit starts no thread, reads no environment variable, and logs nothing above debug for each
    item.

    Attributes:
        spec: The description that this instance was made for; set before `open`.
        device: Where this instance runs; set before `open`.
        batch_size: The most buffers that a call gets; set before `open`.
        allowed_batch_sizes: The sizes that the node says batches are filled up to; set before
            `open`, empty for any.
    """

    SPEC: ClassVar[FlowUnitSpec | None] = None
    spec: FlowUnitSpec | None = None
    device: Device = CPU
    batch_size: int = 1
    allowed_batch_sizes: tuple[int, ...] = ()

    def open(self, config: Any) -> None:
        """Loads what the unit needs; called once, on the worker's thread (a shared unit's: once).

        Args:
            config: The options: an instance of the spec's options dataclass, or a `Config`.

        Raises:
            Exception: any one stops the flow and is raised from ``Flow.start``, naming the node.
        """

    def begin(self) -> None:
        """Begins to take what comes from outside; for sources.

        Called once every unit of the flow is open, on the thread that has opened this one, before
        the first `process` and before ``Flow.start`` returns.

        Raises:
            Exception: any one stops the flow and is raised from ``Flow.start``, naming the node.
        """

    def process(self, ctx: Context) -> None:
        """Turns ``ctx.inputs`` into ``ctx.outputs``; called as often as there are batches.

        Raises:
            Exception: any one becomes the error of the buffers of the batch. Where the batch has
                more than one, its halves are tried first (``is_batch_retried``).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process(ctx)")  # noqa: EM102

    def close(self) -> None:
        """Gives back what ``open`` took; called exactly once if ``open`` returned."""

    def interrupt(self) -> None:
        """Gives up a call that waits for somebody else: the flow ends and wants no answer.

        Called from any thread, beside `process`, perhaps when no call is under way.
        """

    def reload(self) -> None:
        """Takes up what has changed outside (a new version of a model), beside `process`.

        For shared units; called on the thread of ``Flow.reload``.

        Raises:
            NotImplementedError: the unit has nothing to take up.
        """
        raise NotImplementedError(f"{type(self).__name__} has nothing to reload")  # noqa: EM102

    def figures(self) -> Mapping[str, Mapping[Any, int]]:
        """Returns counters of the unit's own, for the node's statistics; for shared units."""
        return {}

    def tensors(self) -> Mapping[str, TensorSpec]:
        """Returns, by port, what the opened unit knows of one item there beyond its description.

        For shared units that load a model.
        """
        return {}

    def stream_start(self, ctx: Context) -> None:
        """Called before the first ``process`` of a stream; for units of the stream kind.

        Raises:
            Exception: any one becomes the error of every buffer of the stream.
        """

    def stream_end(self, ctx: Context) -> None:
        """Called once behind the last ``process`` of a stream; may emit. For the stream kind.

        Called for every stream whose ``stream_start`` returned, also an empty one, and also where
        the session was cancelled or the flow is stopped (``ctx.is_cancelled``).
        """
