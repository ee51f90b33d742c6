"""`FlowUnit`, `DataContext` and their stores: the classes for authors of ModelBox units."""

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.compat.modelbox.buffer import Buffer, BufferList, Device
from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.status import Status, StatusCode
from modelflow.unit.unit import Context

# The keys of a session's configuration and identifier among the session's values.
_CONFIG, _ID = "modelbox.session_config", "modelbox.session_id"
_lock = threading.Lock()
T = TypeVar("T")


class MissingValueError(KeyError, RuntimeError):
    """No value of that name was set."""


def _accessors(kind: type[T]) -> tuple[Callable[["Store", str, T], None], Callable[..., T]]:
    """Returns a setter and a getter for values of a type; the getter raises for a missing value."""

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
        """Returns a stored value.

        Raises:
            MissingValueError: No value of that name is stored. The message lists the stored names.
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
    """The values that `DataContext.send_event` carries to the next call of the unit."""


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
    """A description of an error."""

    def __init__(self, *parts: Any) -> None:
        """Takes a description, or the node, the place of the error, and a `Status`."""
        self._parts = parts

    def get_description(self) -> str:
        """Returns the description."""
        return ": ".join(map(str, self._parts))


class DataContext(Store):
    """The data of a call, and the values that the unit stores for the stream.

    The object exists as long as the stream. For expand and collapse units that is the sub-stream,
    and for others the call. Therefore `set_private` can store values for the next call.
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
        """Takes the data of a call; only the adapter calls this method."""
        self._context = context
        self._external = external
        self._send = send or context.send_event
        self._event = event or context.event
        self._inputs = {name: BufferList.of(v, self._device) for name, v in inputs.items()}
        self._outputs = {name: BufferList(self._device) for name in self._output_names}

    # -- data -----------------------------------------------------------------------------------

    def input(self, port: str) -> BufferList | None:
        """Returns the buffers of an input, or None for an unknown port."""
        return self._inputs.get(port)

    def output(self, port: str) -> BufferList | None:
        """Returns the list to fill for an output, or None for an unknown port."""
        return self._outputs.get(port)

    def external(self) -> BufferList | None:
        """Returns the buffers of `ExternalData.send`, in a unit without inputs."""
        return self._external

    def has_error(self) -> bool:
        """Returns True if an input buffer is an error; only exception-visible units get errors."""
        return any(buffer.has_error() for buffers in self._inputs.values() for buffer in buffers)

    def get_error(self) -> Buffer | None:
        """Returns the first input buffer that is an error, or None."""
        found = (b for buffers in self._inputs.values() for b in buffers if b.has_error())
        return next(found, None)

    # -- events ---------------------------------------------------------------------------------

    def event(self) -> FlowUnitEvent | None:
        """Returns the event that caused this call, or None."""
        return self._event if isinstance(self._event, FlowUnitEvent) else None

    def send_event(self, event: FlowUnitEvent) -> None:
        """Requests another call of the unit for this stream, without input."""
        self._send(event)

    def get_private(self, key: str) -> Any:
        """Returns a value of `set_private`, or None for an unknown name."""
        return self._values.get(key)

    # -- stream and session ---------------------------------------------------------------------

    def get_input_meta(self, port: str) -> DataMeta:  # noqa: ARG002 - all ports are of one stream
        """Returns the values that belong to the stream."""
        return DataMeta(self._context.stream_meta)

    get_input_group_meta = get_input_meta

    def set_output_meta(self, port: str, meta: DataMeta) -> None:  # noqa: ARG002 - as above
        """Adds values to the values of the stream; existing values stay."""
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
        """Loads the resources of the unit, and returns a `Status`."""
        return Status()

    def process(self, data_context: DataContext) -> Any:  # noqa: ARG002
        """Processes the data of one call, and returns a `Status`."""
        return Status(StatusCode.STATUS_NOTSUPPORT, "the unit does not define process")

    def close(self) -> Any:
        """Releases the resources of ``open``."""
        return Status()

    def data_pre(self, data_context: DataContext) -> Any:  # noqa: ARG002
        """Called before the first ``process`` of a stream; ``data_post`` is called after the last.

        ``data_group_pre`` and ``data_group_post`` are never called. ModelBox's engine does not call
        them either.
        """
        return Status()

    data_post = data_group_pre = data_group_post = data_pre

    def get_bind_device(self) -> Device:
        """Returns the device that this unit runs on."""
        return self._device

    def create_buffer(self, data: Any) -> Buffer:
        """Returns a buffer of ``data``."""
        return Buffer(self._device, data)

    def create_external_data(self) -> Any:
        """Returns an `ExternalData`, with which a unit without inputs feeds itself.

        Raises:
            RuntimeError: The unit has inputs.
        """
        if self._new_external_data is None:
            raise RuntimeError("create_external_data is for units without inputs")
        return self._new_external_data()
