"""Adapts ModelBox units to modelflow's units."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.compat.modelbox.buffer import Device
from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.flowunit import DataContext, FlowUnit
from modelflow.compat.modelbox.status import Status, StatusCode
from modelflow.errors import EndFlow
from modelflow.http.reply import RAW
from modelflow.unit.kind import Collapse, Expand, Stream
from modelflow.unit.unit import Context
from modelflow.unit.unit import FlowUnit as NativeFlowUnit

if TYPE_CHECKING:
    from modelflow.compat.modelbox.flowunit import FlowUnitEvent


class StatusError(Exception):
    """An error for a unit that returned a status other than success.

    Attributes:
        status: The returned status.
    """

    def __init__(self, status: Status) -> None:
        super().__init__(str(status))
        self.status = status


class StopFlow(EndFlow):
    """A unit returned ``STATUS_STOP`` or ``STATUS_SHUTDOWN``: the flow ends."""

    def __init__(self, status: Status) -> None:
        super().__init__(str(status))
        self.status = status


class UnitAdapter(NativeFlowUnit):
    """An adapter that runs a ModelBox unit of any kind with inputs."""

    def __init__(self, unit: FlowUnit, base: Mapping[str, Any] | None = None) -> None:
        """Takes the unit, and the section ``[base]`` of its file."""
        self._unit = unit
        self._is_collapse_all = bool((base or {}).get("collapse_all", True))

    def open(self, config: Any) -> None:
        """Opens the unit with the node's attributes.

        Raises:
            StatusError: The unit returned a status other than success.
        """
        self._unit._device = Device(self.device)
        checked(self._unit.open(self._configuration(config)), "open")

    def close(self) -> None:
        """Closes the unit and ignores the returned status."""
        self._unit.close()

    def process(self, ctx: Context) -> None:
        """Calls the unit in the way of its kind."""
        kind = None if self.spec is None else self.spec.kind
        if isinstance(kind, Stream):
            self._process_stream(ctx)
        elif isinstance(kind, Expand | Collapse):
            self._process_whole(ctx)
        else:
            data = self._data_context()
            data.begin(ctx, ctx.inputs)
            self._call(data, ctx)

    def stream_end(self, ctx: Context) -> None:
        """Calls ``data_post`` if ``data_pre`` was called."""
        data: DataContext | None = ctx.state.get("data")
        if data is not None and "failure" not in ctx.state:
            data.begin(ctx, {})
            status = checked(self._unit.data_post(data), "data_post")
            if status:
                self._emit(data, ctx)

    # -- kinds ----------------------------------------------------------------------------------

    def _process_stream(self, ctx: Context) -> None:
        data: DataContext | None = ctx.state.get("data")
        if data is None:
            data = ctx.state["data"] = self._data_context()
            data.begin(ctx, ctx.inputs)
            try:
                checked(self._unit.data_pre(data), "data_pre")
            except Exception as error:
                ctx.state["failure"] = error
                self._unit.data_post(data)  # ModelBox calls it after a failure, too
                raise
        elif "failure" in ctx.state:
            raise ctx.state["failure"]
        data.begin(ctx, ctx.inputs)
        if self._call(data, ctx) == StatusCode.STATUS_CONTINUE:
            ctx.hold()

    def _process_whole(self, ctx: Context) -> None:
        """Runs a sub-stream from its start to its end, including its events."""
        events: deque[FlowUnitEvent] = deque()
        data: DataContext | None = ctx.state.get("data")
        if data is None:
            data = ctx.state["data"] = self._data_context()
        data.begin(ctx, ctx.inputs, send=events.append)
        checked(self._unit.data_pre(data), "data_pre")
        for inputs in self._parts(ctx.inputs):
            data.begin(ctx, inputs, send=events.append)
            self._call(data, ctx)
            while events:
                nothing: dict[str, list[Buffer]] = {name: [] for name in inputs}
                data.begin(ctx, nothing, send=events.append, event=events.popleft())
                self._call(data, ctx)
        data.begin(ctx, {}, send=events.append)
        checked(self._unit.data_post(data), "data_post")
        self._emit(data, ctx)

    def _parts(self, inputs: Mapping[str, list[Buffer]]) -> list[Mapping[str, list[Buffer]]]:
        """Returns the inputs of each call: all buffers, or for some collapse units one buffer."""
        size = len(next(iter(inputs.values())))
        if self._is_collapse_all or size == 0:
            return [inputs]
        return [{name: column[i : i + 1] for name, column in inputs.items()} for i in range(size)]

    # -- one call -------------------------------------------------------------------------------

    def _call(self, data: DataContext, ctx: Context) -> Status:
        status = checked(self._unit.process(data), "process")
        self._emit(data, ctx)
        return status

    def _emit(self, data: DataContext, ctx: Context) -> None:
        for port in ctx.outputs:
            given = data.output(port)
            for native in () if given is None else given.natives():
                if isinstance(native.data, np.ndarray) and native.data.dtype == np.uint8:
                    native.set(RAW, True)  # a reply contains the bytes, not the numbers as text
                ctx.outputs[port].append(native)

    def _data_context(self) -> DataContext:
        outputs = () if self.spec is None else self.spec.output_names
        return DataContext(Device(self.device), outputs)

    def _configuration(self, config: Any) -> Configuration:
        """Returns the unit's own options, and the node's settings of batch size and device."""
        found = Configuration.of_attributes(
            {"batch_size": self.batch_size, "device": self.device.kind, **dict(config)}
        )
        if self.spec is not None and not found.get_string("flowunit"):
            found.set("flowunit", self.spec.name)
        return found


def checked(status: Any, method: str) -> Status:
    """Returns the status of a unit, if the unit's outputs are valid.

    Raises:
        StatusError: The status is a failure.
        StopFlow: The status is ``STATUS_STOP`` or ``STATUS_SHUTDOWN``.
        TypeError: The unit returned another type.
    """
    if not isinstance(status, Status | StatusCode | bool):
        raise TypeError(
            f"{method} returned {status!r}; expected a Status"
            f"{' (is a return missing?)' if status is None else ''}"
        )
    found = status if isinstance(status, Status) else Status(status)
    if found.code() in (StatusCode.STATUS_STOP, StatusCode.STATUS_SHUTDOWN):
        raise StopFlow(found)
    if not found and found.code() is not StatusCode.STATUS_CONTINUE:
        raise StatusError(found)
    return found
