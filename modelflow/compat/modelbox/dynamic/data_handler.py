"""`DataHandler`: the inputs and outputs of units of a `ModelBoxEngine`."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from modelflow.compat.modelbox.buffer import Buffer, BufferList, outgoing
from modelflow.compat.modelbox.dynamic.part import End, Inlet, Step
from modelflow.compat.modelbox.status import Status, StatusCode
from modelflow.errors import ModelflowError, PortError, did_you_mean

if TYPE_CHECKING:
    from modelflow.buffer import Buffer as NativeBuffer
    from modelflow.compat.modelbox.dynamic.engine import ModelBoxEngine


Source = Union["DataHandler", Buffer]


class DataHandler:
    """An input of the graph, the outputs of a unit, or several of these by name.

    `ModelBoxEngine.create_input` and `ModelBoxEngine.execute` return handlers. ``DataHandler()`` is
    empty until `set_datahandler`. Iterating over an output yields its `Buffer` objects on demand,
    each once. A failed buffer returns True from ``has_error()``.
    """

    def __init__(
        self, engine: "ModelBoxEngine | None" = None, ends: Mapping[str, End] | None = None
    ) -> None:
        """Takes inputs, or the outputs of a unit, by port. Only the engine passes them."""
        self._engine = engine
        self._ends = dict(ends or {})
        # Whether the ports belong to other handlers, for a unit with several inputs.
        self._is_joint = ends is None

    # -- ports ----------------------------------------------------------------------------------

    def __getitem__(self, port: str) -> "DataHandler":
        """Returns a handler of a single port.

        Raises:
            PortError: No port has that name. The message names the nearest.
        """
        if port in self._ends:
            return DataHandler(self._engine, {port: self._ends[port]})
        near, known = did_you_mean(port, self._ends), ", ".join(self._ends) or "none"
        raise PortError(f"no port {port!r}{near} (ports: {known})")

    get_datahandler = __getitem__

    def set_datahandler(self, sources: Mapping[str, Source]) -> Status:
        """Sets the inputs of a unit with several inputs: ``{input: handler}``.

        Returns:
            ``STATUS_INVALID`` if this handler is an input of the graph or an output of a unit.
        """
        if not self._is_joint:
            message = "this handler has ports of its own; set those of an empty DataHandler()"
            return Status(StatusCode.STATUS_INVALID, message)
        for port, source in sources.items():
            engine = source._engine if isinstance(source, DataHandler) else None
            self._engine = self._engine or engine
            self._ends[port] = only_end(source, engine)
        return Status()

    def sources(self, engine: "ModelBoxEngine") -> dict[str | None, End]:
        """Returns the sources of a unit with this handler by input, or by None for a single input.

        Raises:
            ModelflowError: The handler belongs to another engine, or is empty.
            PortError: The handler is a unit with several outputs, and names none of them.
        """
        if not self._ends:
            raise ModelflowError(
                "got an empty DataHandler; name the unit's sources with set_datahandler"
            )
        if self._is_joint or len(self._inlets()) > 1:
            self._check_engine(engine)
            return dict(self._ends.items())
        return {None: self.only(engine)}

    def only(self, engine: "ModelBoxEngine | None") -> End:
        """Returns the only port of the handler; raises as `sources`."""
        self._check_engine(engine)
        if len(self._ends) != 1:
            names = ", ".join(self._ends) or "none"
            raise PortError(
                f"got a handler with the ports {names}; name one of them: handler['...']"
            )
        return next(iter(self._ends.values()))

    def _check_engine(self, engine: "ModelBoxEngine | None") -> None:
        if self._engine not in (engine, None):
            raise ModelflowError("got a handler of another engine; a graph has one engine")

    # -- inputs ---------------------------------------------------------------------------------

    def setmeta(self, key: str, value: Any) -> Status:
        """Sets a meta value for every buffer of this input; without data, for one empty buffer.

        Returns:
            ``STATUS_INVALID`` if the handler is no input, or its graph already runs.
        """
        inlets = self._inlets()
        if not inlets:
            return Status(StatusCode.STATUS_INVALID, "setmeta: only an input takes values")
        if any(inlet.run is not None for inlet in inlets):
            return Status(StatusCode.STATUS_INVALID, f"setmeta: {key!r}: its graph runs already")
        for inlet in inlets:
            inlet.meta[key] = value
        return Status()

    def pushdata(self, data: Any, port: str | None = None) -> Status:
        """Pushes the next buffers to an input of the graph.

        The buffers wait until the graph runs. From then on the call blocks while the graph is full.

        Args:
            data: A `Buffer`, a `BufferList`, an array, bytes or a text. For a handler, all of its
                buffers.
            port: The input. None for the only input.

        Returns:
            ``STATUS_INVALID`` if the handler is no input or has no such port, ``STATUS_STOP`` after
            `close`, ``STATUS_FAULT`` if the graph failed.
        """
        if self._is_joint and isinstance(data, DataHandler | Buffer) and port is not None:
            return self.set_datahandler({port: data})
        inlets = self._inlets()
        if port is None and len(inlets) == 1:
            port = next(iter(self._ends))
        if port not in self._ends or not inlets or self._engine is None:
            known = ", ".join(self._ends) if inlets else "none, it is no input"
            message = f"pushdata: got the port {port!r}; expected one of {known}"
            return Status(StatusCode.STATUS_INVALID, message)
        inlet = inlets[list(self._ends).index(port)]  # all ports of an input are inlets
        if inlet.is_closed:
            return Status(StatusCode.STATUS_STOP, f"pushdata: the input {port!r} is closed")
        return self._engine.push(inlet, _natives(data))

    def close(self) -> None:
        """Closes an input, or drops an output whose results are not needed.

        A graph without results, which ends only in units without outputs, then starts to run.
        """
        if self._engine is not None and not self._is_joint:
            for member, port in self._ends.values():
                self._engine.close_end(member, port)

    def _inlets(self) -> list[Inlet]:
        """Returns the inputs that belong to this handler itself."""
        if self._is_joint:
            return []
        return [member for member, _ in self._ends.values() if isinstance(member, Inlet)]

    # -- outputs --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Buffer]:
        """Returns an iterator of a unit's output; the graph starts with the first buffer.

        Raises:
            PortError: The handler is no output, or has several.
            FlowUnitError, FlowFailed, ModelflowError: See `ModelBoxEngine`; raised while iterating.
        """
        engine = self._engine
        member, port = (None, None) if engine is None else self.only(engine)
        if engine is None or port is None or not isinstance(member, Step):
            raise PortError(
                "an input has no results; execute a unit on it, and iterate over its output"
            )
        member.wanted.add(port)
        member.unwanted.discard(port)
        return iter(partial(engine.take, member, port), None)


def only_end(source: Any, engine: "ModelBoxEngine | None") -> End:
    """Returns the source of one input; a buffer becomes an input of its own.

    Raises:
        ModelflowError: The source is neither a handler nor a buffer; see also
            `DataHandler.sources`.
    """
    if isinstance(source, DataHandler):
        return source.only(engine)
    if isinstance(source, Buffer):
        given = [Buffer(source).native]
        return Inlet(name="input", waiting=given, is_closed=True, is_constant=True), None
    raise ModelflowError(f"got {source!r:.60}; expected a DataHandler or a Buffer")


def _natives(data: Any) -> "Iterator[NativeBuffer]":
    """Yields the native buffers to send into the graph."""
    if isinstance(data, BufferList):
        yield from data.natives()
    elif isinstance(data, DataHandler):
        yield from map(outgoing, data)
    else:
        yield outgoing(data if isinstance(data, Buffer) else Buffer(None, data))
