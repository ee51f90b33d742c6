"""`FlowUnit`, `DataContext` and their stores: what the author of a ModelBox unit works with."""

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.compat.modelbox.buffer import Buffer, BufferList, Device
from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.status import Status, StatusCode
from modelflow.unit.unit import Context

# Where a session keeps its configuration and its identifier among its own values.
_CONFIG, _ID = "modelbox.session_config", "modelbox.session_id"
_lock = threading.Lock()
T = TypeVar("T")


class MissingValueError(KeyError, RuntimeError):
    """No value of that name was set."""


def _accessors(kind: type[T]) -> tuple[Callable[["Store", str, T], None], Callable[..., T]]:
    """Returns the methods that store and give values of a type; the latter raises for none."""

    def set_private(self: "Store", key: str, value: T) -> None:
        self._values[key] = kind(value)  # type: ignore[call-arg]

    def get_private(self: "Store", key: str) -> T:
        return kind(Store.get_private(self, key))  # type: ignore[call-arg]

    return set_private, get_private


class Store:
    """Values by name."""

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values = {} if values is None else values

    def set_private(self, key: str, value: Any) -> None:
        """Stores any object."""
        self._values[key] = value

    def get_private(self, key: str) -> Any:
        """Returns what was stored.

        Raises:
            MissingValueError: nothing was; those that are there are named.
        """
        if key not in self._values:
            known = ", ".join(map(repr, self._values)) or "none"
            raise MissingValueError(f"no value {key!r} was set (values: {known})")
        return self._values[key]

    set_private_string, get_private_string = _accessors(str)
    set_private_int, get_private_int = _accessors(int)


class DataMeta(Store):
    """The values that belong to a stream as a whole."""


class FlowUnitEvent(Store):
    """What `DataContext.send_event` carries to the next call of the unit."""


class SessionContext(Store):
    """The values that all units of a session share."""

    def get_session_config(self) -> Configuration:
        """Returns the session's configuration."""
        with _lock:
            found: Configuration = self._values.setdefault(_CONFIG, Configuration())
            return found

    def get_session_id(self) -> str:
        """Returns an identifier that no other session has."""
        with _lock:
            return str(self._values.setdefault(_ID, str(uuid.uuid4())))


class FlowUnitError:
    """A description of what went wrong."""

    def __init__(self, *parts: Any) -> None:
        """Takes a description, or the node, the place of the error, and a `Status`."""
        self._parts = parts

    def get_description(self) -> str:
        """Returns the description."""
        return ": ".join(map(str, self._parts))


class DataContext(Store):
    """The data of one call, and what the unit keeps for the stream.

    Lives as long as the stream (of a sub-stream for expand and collapse units; of the call for
    others), so that `set_private` keeps what the next call needs.
    """

    def __init__(self, device: Device, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self._device = device
        self._output_names = outputs
        self._external: BufferList | None = None
        self._event: Any = None
        self._context = Context({}, {})
        self._send: Callable[[FlowUnitEvent], Any] = self._context.send_event
        self._inputs: dict[str, BufferList] = {}
        self._outputs: dict[str, BufferList] = {}

    def begin(
        self,
        context: Context,
        inputs: Mapping[str, list[NativeBuffer]],
        *,
        external: BufferList | None = None,
        send: Callable[[FlowUnitEvent], Any] | None = None,
        event: FlowUnitEvent | None = None,
    ) -> None:
        """Takes the data of a call; called by the adapter."""
        self._context = context
        self._external = external
        self._send = send or context.send_event
        self._event = event or context.event
        self._inputs = {name: BufferList.of(v, self._device) for name, v in inputs.items()}
        self._outputs = {name: BufferList(self._device) for name in self._output_names}

    # -- data -----------------------------------------------------------------------------------

    def input(self, port: str) -> BufferList | None:
        """Returns the buffers of an input; None where there is no such port."""
        return self._inputs.get(port)

    def output(self, port: str) -> BufferList | None:
        """Returns the list to fill for an output; None where there is no such port."""
        return self._outputs.get(port)

    def external(self) -> BufferList | None:
        """Returns what `ExternalData.send` was given, in a unit without inputs."""
        return self._external

    def has_error(self) -> bool:
        """Tells whether an input buffer is an error; only exception-visible units get any."""
        return any(buffer.has_error() for buffers in self._inputs.values() for buffer in buffers)

    def get_error(self) -> Buffer | None:
        """Returns the first input buffer that is an error, or None."""
        found = (b for buffers in self._inputs.values() for b in buffers if b.has_error())
        return next(found, None)

    # -- events ---------------------------------------------------------------------------------

    def event(self) -> FlowUnitEvent | None:
        """Returns the event that brought this call about, or None."""
        return self._event if isinstance(self._event, FlowUnitEvent) else None

    def send_event(self, event: FlowUnitEvent) -> None:
        """Has the unit called again for this stream, without input."""
        self._send(event)

    def get_private(self, key: str) -> Any:
        """Returns what was kept by `set_private`; None where nothing was."""
        return self._values.get(key)

    # -- stream and session ---------------------------------------------------------------------

    def get_input_meta(self, port: str) -> DataMeta:  # noqa: ARG002 - all ports are of one stream
        """Returns the values that belong to the stream."""
        return DataMeta(self._context.stream_meta)

    get_input_group_meta = get_input_meta

    def set_output_meta(self, port: str, meta: DataMeta) -> None:  # noqa: ARG002 - as above
        """Adds values to those of the stream; what is there already stays."""
        for key, value in meta._values.items():
            self._context.stream_meta.setdefault(key, value)

    def get_session_context(self) -> SessionContext:
        """Returns the values that all units of the session share."""
        return SessionContext(self._context.session)

    def get_session_config(self) -> Configuration:
        """Returns the session's configuration."""
        return self.get_session_context().get_session_config()


class FlowUnit:
    """The base class of ModelBox's Python units."""

    def __init__(self) -> None:
        self._device = Device()
        self._new_external_data: Callable[[], Any] | None = None

    def open(self, config: Configuration) -> Any:  # noqa: ARG002 - to be overridden
        """Loads what the unit needs; returns a `Status`."""
        return Status()

    def process(self, data_context: DataContext) -> Any:  # noqa: ARG002
        """Works on the data of one call; returns a `Status`."""
        return Status(StatusCode.STATUS_NOTSUPPORT, "the unit does not define process")

    def close(self) -> Any:
        """Gives back what ``open`` took."""
        return Status()

    def data_pre(self, data_context: DataContext) -> Any:  # noqa: ARG002
        """Called before the first ``process`` of a stream; ``data_post`` after the last.

        The two of groups are never called; ModelBox's engine does not call them either.
        """
        return Status()

    data_post = data_group_pre = data_group_post = data_pre

    def get_bind_device(self) -> Device:
        """Returns where this unit runs."""
        return self._device

    def create_buffer(self, data: Any) -> Buffer:
        """Returns a buffer of ``data``."""
        return Buffer(self._device, data)

    def create_external_data(self) -> Any:
        """Returns an `ExternalData`, by which a unit without inputs feeds itself.

        Raises:
            RuntimeError: the unit has inputs.
        """
        if self._new_external_data is None:
            raise RuntimeError("create_external_data is for units without inputs")
        return self._new_external_data()
