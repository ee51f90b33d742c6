"""ModelBox units without inputs, and units from folders that import ModelBox's names."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from modelflow.compat.modelbox.adapter import UnitAdapter
from modelflow.compat.modelbox.buffer import BufferList, Device
from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.flowunit import FlowUnit, FlowUnitEvent, SessionContext
from modelflow.compat.modelbox.status import Status, StatusCode
from modelflow.unit.kind import Condition, Count, Normal, Stream
from modelflow.unit.unit import Context

# The event that calls an idle source after data were sent or closed.
_SENT = object()


class ExternalData:
    """The data that a unit without inputs sends to itself; each list causes a call of ``process``.

    Safe from any thread.
    """

    def __init__(self, source: "SourceAdapter") -> None:
        self._source = source
        self._is_closed = False

    def create_buffer_list(self) -> BufferList:
        """Returns an empty list."""
        return BufferList(Device(self._source.device))

    def send(self, buffers: BufferList) -> Status:
        """Sends a list; ``process`` gets the list as ``data_context.external()``."""
        if self._is_closed:
            return Status(StatusCode.STATUS_STOP, "this external data is closed")
        self._source.send(buffers)
        return Status()

    def close(self) -> Status:
        """Closes the external data; no further lists can be sent."""
        self._is_closed = True
        self._source.closed(self)
        return Status()

    def get_session_context(self) -> SessionContext:
        """Returns the values that all units of the session share."""
        return SessionContext(self._source.session)

    def get_session_config(self) -> Configuration:
        """Returns the session's configuration."""
        return self.get_session_context().get_session_config()


class SourceAdapter(UnitAdapter):
    """An adapter of a ModelBox unit without inputs, which ends when all external data are closed.

    Attributes:
        session: The values of the session.
    """

    def __init__(self, unit: FlowUnit, base: Mapping[str, Any]) -> None:
        super().__init__(unit, base)
        self.session: dict[str, Any] = {}
        self._sent: deque[BufferList] = deque()
        self._open: set[ExternalData] = set()
        self._has_had_one = False
        self._is_going_on = False
        self._lock = threading.Lock()
        self._post: Callable[[Any], bool] | None = None
        unit._new_external_data = self.create_external_data

    def create_external_data(self) -> ExternalData:
        """Returns a new, open `ExternalData`."""
        external = ExternalData(self)
        with self._lock:
            self._open.add(external)
            self._has_had_one = True
        return external

    def send(self, buffers: BufferList) -> None:
        """Queues a list for a call."""
        with self._lock:
            self._sent.append(buffers)
        self._wake()

    def closed(self, external: ExternalData) -> None:
        """Records that an external data is closed."""
        with self._lock:
            self._open.discard(external)
        self._wake()

    def _wake(self) -> None:
        if self._post is not None:
            self._post(_SENT)

    def process(self, ctx: Context) -> None:
        """Calls the unit once, for a sent list or for its own event."""
        self._post = ctx.send_event
        if ctx.session is not self.session:
            ctx.session.update(self.session)
            self.session = ctx.session
        external = None
        if not isinstance(ctx.event, FlowUnitEvent):
            with self._lock:
                external = self._sent.popleft() if self._sent else None
        if external is not None or isinstance(ctx.event, FlowUnitEvent):
            if "data" not in ctx.state:
                ctx.state["data"] = self._data_context()
            data = ctx.state["data"]
            data.begin(ctx, {}, external=external)
            status = self._call(data, ctx)
            self._is_going_on = status == StatusCode.STATUS_CONTINUE
        with self._lock:
            has_more = bool(self._sent)
            is_done = self._has_had_one and not self._open and not self._is_going_on
        if is_done and not has_more:
            ctx.finish()
        elif not has_more:
            ctx.hold()


# The assumptions of units written for ModelBox. Each node has one instance, which several threads
# call at once. Units that can handle errors get errors. A failing batch is not tried again. Only
# the unit itself passes meta on. ``kinds`` replaces the kinds that have no fields of their own.
UNIT_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "is_shared": True,
        "is_exception_given": True,
        "inherits_meta": False,
        "kinds": (
            Normal(is_per_stream=True, is_batch_retried=False),
            Stream(Count.ASSUMED),
            Condition(is_batch_retried=False),
        ),
        "threads": max(2, len(os.sched_getaffinity(0))),
    }
)


def as_flow_unit(cls: type[Any], base: Mapping[str, Any], *, is_source: bool) -> UnitAdapter | None:
    """Adapts an instance of a class of a unit's file to modelflow.

    Args:
        cls: The class.
        base: The section ``[base]`` of the unit's file.
        is_source: Whether the unit has no inputs.

    Returns:
        The adapter. None if the class is no ModelBox unit.
    """
    if not issubclass(cls, FlowUnit):
        return None
    return SourceAdapter(cls(), base) if is_source else UnitAdapter(cls(), base)
