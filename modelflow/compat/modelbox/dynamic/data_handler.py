"""`DataHandler`: what units of a `ModelBoxEngine` read and give."""

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

    `ModelBoxEngine.create_input` and `ModelBoxEngine.execute` give them; ``DataHandler()`` is empty
    until `set_datahandler`. Iterating over an output gives its `Buffer` objects, when they are
    asked for; one that failed says so by ``has_error()``. Each is given once.
    """

    def __init__(
        self, engine: "ModelBoxEngine | None" = None, ends: Mapping[str, End] | None = None
    ) -> None:
        """Takes inputs, or the outputs of a unit, by port: for the engine."""
        self._engine = engine
        self._ends = dict(ends or {})
        # Its ports are of other handlers: what a unit with several inputs reads.
        self._is_joint = ends is None

    # -- ports ----------------------------------------------------------------------------------

    def __getitem__(self, port: str) -> "DataHandler":
        """Returns one port.

        Raises:
            PortError: there is none of that name; the message names the nearest.
        """
        if port in self._ends:
            return DataHandler(self._engine, {port: self._ends[port]})
        near, known = did_you_mean(port, self._ends), ", ".join(self._ends) or "none"
        raise PortError(f"no port {port!r}{near} (ports: {known})")

    get_datahandler = __getitem__

    def set_datahandler(self, sources: Mapping[str, Source]) -> Status:
        """Says what a unit with several inputs reads: ``{input: handler}``.

        Returns:
            ``STATUS_INVALID`` where this is an input of the graph, or a unit's output.
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
        """Returns what a unit that is given this handler reads, by input; None: its only one.

        Raises:
            ModelflowError: it belongs to another engine, or is empty.
            PortError: a unit's output is meant, and it has several.
        """
        if not self._ends:
            raise ModelflowError(
                "got an empty DataHandler; say by set_datahandler what the unit reads"
            )
        if self._is_joint or len(self._inlets()) > 1:
            self._check_engine(engine)
            return dict(self._ends.items())
        return {None: self.only(engine)}

    def only(self, engine: "ModelBoxEngine | None") -> End:
        """Returns the one port that is meant; raises as `sources`."""
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
        """Sets a value that each buffer of this input has; alone, it is a buffer without data.

        Returns:
            ``STATUS_INVALID`` where it is no input, or runs already.
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
        """Gives an input of the graph its next buffers.

        They wait until the graph runs, and from then on this waits while the graph is full.

        Args:
            data: A `Buffer`, a `BufferList`, an array, bytes or a text; a handler: all that it
                gives.
            port: Which input; None: the only one.

        Returns:
            ``STATUS_INVALID`` where it is no input or has no such port; ``STATUS_STOP`` behind
            `close`; ``STATUS_FAULT`` where the graph failed.
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
        """Says that nothing more is pushed; of an output, that nobody wants it.

        A graph that gives nothing, since all of it ends in units without outputs, begins to run.
        """
        if self._engine is not None and not self._is_joint:
            for member, port in self._ends.values():
                self._engine.close_end(member, port)

    def _inlets(self) -> list[Inlet]:
        """Returns the inputs that are this handler's own."""
        if self._is_joint:
            return []
        return [member for member, _ in self._ends.values() if isinstance(member, Inlet)]

    # -- outputs --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Buffer]:
        """Gives the buffers of a unit's output; its graph runs when the first is asked for.

        Raises:
            PortError: it is no output, or several.
            FlowUnitError, FlowFailed, ModelflowError: see `ModelBoxEngine`; while iterating.
        """
        engine = self._engine
        member, port = (None, None) if engine is None else self.only(engine)
        if engine is None or port is None or not isinstance(member, Step):
            raise PortError(
                "an input gives nothing back; execute a unit on it, and iterate over that"
            )
        member.wanted.add(port)
        member.unwanted.discard(port)
        return iter(partial(engine.take, member, port), None)


def only_end(source: Any, engine: "ModelBoxEngine | None") -> End:
    """Returns what one input reads; a buffer is the end of its own.

    Raises:
        ModelflowError: it is neither a handler nor a buffer; or as `DataHandler.sources`.
    """
    if isinstance(source, DataHandler):
        return source.only(engine)
    if isinstance(source, Buffer):
        given = [Buffer(source).native]
        return Inlet(name="input", waiting=given, is_closed=True, is_constant=True), None
    raise ModelflowError(f"got {source!r:.60}; expected a DataHandler or a Buffer")


def _natives(data: Any) -> "Iterator[NativeBuffer]":
    """Gives what goes on into the graph, one by one."""
    if isinstance(data, BufferList):
        yield from data.natives()
    elif isinstance(data, DataHandler):
        yield from map(outgoing, data)
    else:
        yield outgoing(data if isinstance(data, Buffer) else Buffer(None, data))
