"""`Flow` and `FlowGraphDesc`: ModelBox's calls, implemented with modelflow's classes."""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from modelflow.compat.modelbox.adapter import StopFlow, UnitAdapter
from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.flowunit import DataContext, FlowUnit
from modelflow.compat.modelbox.session_io import ExternalDataMap, FlowStreamIO
from modelflow.compat.modelbox.status import Status, StatusCode, status_of
from modelflow.config.read import find_graph
from modelflow.errors import (
    DisabledGraphError,
    FlowFailed,
    GraphError,
    ModelflowError,
    PlanError,
    StreamError,
)
from modelflow.flow import Flow as NativeFlow
from modelflow.graph.graph import Graph
from modelflow.graph.in_code import FlowGraphDesc as NativeFlowGraphDesc
from modelflow.graph.in_code import FlowNodeDesc as NativeFlowNodeDesc
from modelflow.graph.in_code import FlowPortDesc as NativeFlowPortDesc
from modelflow.graph.read import read_graph
from modelflow.unit.kind import Count, Stream
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec

_function_numbers = itertools.count()


class FlowPortDesc(NativeFlowPortDesc):
    """An output of a node."""

    def get_node_name(self) -> str:
        """Returns the name of the node."""
        return self.node.name

    def get_port_name(self) -> str:
        """Returns the name of the port, or ``""`` for a number if the node does not state names."""
        return self.ref().port or ""


class FlowNodeDesc(NativeFlowNodeDesc):
    """A node of a `FlowGraphDesc`."""

    def __getitem__(self, port: str | int) -> FlowPortDesc:
        return FlowPortDesc(self, port)

    def get_node_name(self) -> str:
        """Returns the name of the node."""
        return self.name

    def set_node_name(self, name: str) -> None:
        """Renames the node."""
        self.name = name


class FlowGraphDesc(NativeFlowGraphDesc):
    """A graph built in code, for `Flow.init`."""

    _numbered = "{}{}"
    _node = FlowNodeDesc

    def set_queue_size(self, queue_size: int) -> None:
        """Sets the default of the node attribute ``queue_size``."""
        self._set("graph", "queue_size", queue_size)

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the default of the node attribute ``batch_size``."""
        self._set("graph", "batch_size", batch_size)

    def set_drivers_dir(self, drivers_dir_list: str | Sequence[str]) -> None:
        """Sets the folders that are searched for flow units."""
        self._set("driver", "dir", drivers_dir_list)

    def set_skip_default_drivers(self, is_skip: bool) -> None:
        """Excludes the built-in and installed units."""
        self._set("driver", "skip-default", is_skip)

    def set_profile_dir(self, profile_dir: str) -> None:
        """Sets the folder of profiles."""
        self._set("profile", "dir", profile_dir)

    def set_profile_trace_enable(self, profile_trace_enable: bool) -> None:
        """Enables recording every execution for the timeline."""
        self._set("profile", "trace", profile_trace_enable)

    def _set(self, section: str, key: str, value: Any) -> None:
        self._sections.setdefault(section, {})[key] = value

    def add_input(self, input_name: str) -> NativeFlowNodeDesc:
        """Adds an input of the graph."""
        node = super().add_input(self._free_name(input_name))
        node.outputs = (node.name,)
        return node

    def add_output(self, output_name: str, source: Any, device: str = "cpu") -> None:
        """Adds an output of the graph."""
        super().add_output(self._free_name(output_name), source, device)

    def add_node(  # type: ignore[override]  # ModelBox's names of the arguments
        self, flowunit_name: str, device: str = "cpu", config: Any = None, source: Any = None
    ) -> NativeFlowNodeDesc:
        """Adds a node.

        Args:
            flowunit_name: The unit.
            device: The device to run on.
            config: ``["key=value", ...]``, or the source if ``source`` is not given.
            source: A node, ``node["port"]``, or ``{input: port}``.

        Raises:
            ConfigError: The config has another form.
        """
        return super().add_node(flowunit_name, device, config, source)

    def add_function(  # type: ignore[override]  # a function of a DataContext, not of values
        self,
        func: Callable[[DataContext], Any],
        input_name_list: Sequence[str],
        output_name_list: Sequence[str],
        source: Any = None,
    ) -> NativeFlowNodeDesc:
        """Adds a node that calls ``func(data_context)``, which returns a `Status` or its code."""
        name = f"register_func_{next(_function_numbers)}"
        called = getattr(func, "__name__", "")
        if called.isidentifier():
            name += f"_{called}"  # for error messages
        spec = FlowUnitSpec(
            name,
            {"cpu": partial(_function_unit, func)},
            inputs=tuple(map(Port, input_name_list)),
            outputs=tuple(map(Port, output_name_list)),
            kind=Stream(Count.ASSUMED),
            batch_size=8,
            is_shared=True,
            inherits_meta=False,
            accepts_any_option=True,
        )
        return self._add_unit(spec, source)

    def _connect(self, node: NativeFlowNodeDesc, source: Any) -> None:
        """Connects a source; each output of a whole node is connected to an input, in order."""
        if isinstance(source, NativeFlowNodeDesc) and len(source.outputs) > 1:
            inputs = self._inputs_of(node)
            for place, port in enumerate(source.outputs):
                self._links.append((source[port], node, inputs[place] if inputs else None))
        else:
            super()._connect(node, source)

    def _inputs_of(self, node: NativeFlowNodeDesc) -> tuple[str, ...]:
        unit = next(given.get("flowunit", "") for found, given in self._nodes if found is node)
        spec = self._units.get(unit)
        return () if spec is None else spec.input_names


def _function_unit(function: Callable[[DataContext], Any]) -> UnitAdapter:
    unit = FlowUnit()
    unit.process = function  # type: ignore[assignment]
    return UnitAdapter(unit)


logger = logging.getLogger("modelflow")

T = TypeVar("T")

# ModelBox's sessions store any number of unread results.
_UNBOUNDED = 1 << 40


Format = IntEnum("Format", "FORMAT_AUTO FORMAT_TOML FORMAT_JSON", start=0)
"""The formats of a graph file."""


class Flow:
    """A graph and its running engine. Calls return a `Status` and raise no error of modelflow."""

    Format: ClassVar = Format
    FORMAT_AUTO, FORMAT_TOML, FORMAT_JSON = Format

    def __init__(self) -> None:
        self._flow: NativeFlow | None = None
        self._failure: Exception | None = None
        self._result = Status()
        self._is_reported = False

    # -- reading --------------------------------------------------------------------------------

    def init(self, *given: Any, **named: Any) -> Status:
        """Reads a graph.

        The forms are ``init(path, format)``, ``init(name, text, format)``, ``init(FlowGraphDesc)``
        and ``init(Configuration)``. Errors of the graph itself are reported by `build`.
        """
        arguments = [*given, *named.values()]
        form = _FORMS.get(arguments.pop()) if isinstance(arguments[-1], Format) else None
        source: Any = arguments[0]
        if isinstance(source, Configuration):
            source = _nested(source)
        elif len(arguments) > 1:
            source = str(arguments[1])
            form = form or ("json" if source.lstrip().startswith("{") else "toml")
        elif not isinstance(source, FlowGraphDesc):
            source = Path(source)
            if not source.is_file():
                return Status(StatusCode.STATUS_NOTFOUND, f"{source}: there is no such file")
        return self._read(lambda: read_graph(source, format=form))

    def init_by_name(
        self, name: str, args: Mapping[str, Any] | None = None, flow_dir: str | None = None
    ) -> Status:
        """Reads the graph of that ``[flow] name``; ``args`` replace ``$name`` in its text."""
        values = {key: str(value) for key, value in (args or {}).items()}
        return self._read(lambda: read_graph(find_graph(name, flow_dir), args=values))

    def _read(self, read: Callable[[], Graph]) -> Status:
        self._flow = self._failure = None
        try:
            self._flow = NativeFlow(read(), results_bound=_UNBOUNDED)
        except (ModelflowError, OSError) as error:
            return self._failed_reading(error)
        return Status()

    def _failed_reading(self, error: Exception) -> Status:
        findings = error.findings if isinstance(error, GraphError) else ()
        if any(found.error is DisabledGraphError for found in findings):
            return status_of(error, StatusCode.STATUS_PERMIT)
        if isinstance(error, GraphError | PlanError):
            self._failure = error  # ModelBox reports such errors in build
            return Status()
        return status_of(error, StatusCode.STATUS_BADCONF)

    # -- running --------------------------------------------------------------------------------

    def build(self) -> Status:
        """Prepares everything that the graph needs, except threads."""
        if self._failure is not None:
            return status_of(self._failure, StatusCode.STATUS_BADCONF)
        return self._try(lambda flow: flow.scheduler)

    def start_run(self) -> Status:
        """Builds and starts the flow."""
        status = self.build()
        return self._try(NativeFlow.start) if status else status

    run_async = start_run

    def run(self) -> Status:
        """Runs the flow until its end."""
        result = self.start_run()
        if result:
            self.wait(0, result)
            self.stop()
        return result

    def wait(self, timemout: float = 0, retval: Status | None = None) -> Status:
        """Waits until the flow ends.

        Args:
            timemout: The longest wait in milliseconds. 0 for no limit, and a negative number for a
                check without waiting.
            retval: A status to fill with the result of the flow.

        Returns:
            A success if the flow has ended, else ``STATUS_TIMEDOUT`` or ``STATUS_BUSY``.
            ``STATUS_SHUTDOWN`` if an earlier call has already reported the end.
        """
        if self._flow is None:
            return Status(StatusCode.STATUS_NODATA, "the flow does not run")
        if self._is_reported:
            return Status(StatusCode.STATUS_SHUTDOWN)
        try:
            is_over = self._flow.wait(max(0.0, timemout / 1e3) if timemout else None)
        except (FlowFailed, StreamError) as error:
            self._result, is_over = _result_of(error), True
        if not is_over:
            code = StatusCode.STATUS_BUSY if timemout < 0 else StatusCode.STATUS_TIMEDOUT
            return Status(code)
        self._is_reported = True
        if retval is not None:
            retval.assign(self._result)
        return Status()

    def stop(self) -> Status:
        """Ends the flow and its threads, after the data that were already sent."""
        if self._flow is None:
            return Status()
        try:
            self._flow.stop()
        except FlowFailed as error:
            self._result = _result_of(error)
        return Status()

    def create_external_data_map(self) -> ExternalDataMap | None:
        """Opens a session; returns None if the graph has no inputs or the flow does not run."""
        return self._open(ExternalDataMap)

    def create_stream_io(self) -> FlowStreamIO | None:
        """Opens a session; returns None if the graph has no inputs or the flow does not run."""
        return self._open(lambda flow: FlowStreamIO(flow.create_stream_io()))

    def _open(self, make: Callable[[NativeFlow], T]) -> T | None:
        if self._flow is None:
            return None
        try:
            return make(self._flow)
        except StreamError as error:
            logger.warning("no session was opened: %s", error)
            return None  # as ModelBox does

    def _try(self, step: Callable[[NativeFlow], Any]) -> Status:
        if self._flow is None:
            return Status(StatusCode.STATUS_NODATA, "no graph was read; call init")
        try:
            step(self._flow)
        except PlanError as error:
            return status_of(error, StatusCode.STATUS_BADCONF)
        except FlowFailed as error:
            result = _result_of(error)
            # A unit asked for the end at once. The flow did start, and `wait` returns its result.
            return Status() if result == StatusCode.STATUS_STOP else result
        except ModelflowError as error:
            return status_of(error)
        return Status()


_FORMS = {Format.FORMAT_TOML: "toml", Format.FORMAT_JSON: "json"}


def _nested(config: Configuration) -> dict[str, Any]:
    """Returns the values with dotted names as nested tables."""
    found: dict[str, Any] = {}
    for key in config.keys():  # noqa: SIM118 - it is no mapping
        *tables, name = key.split(".")
        table = found
        for part in tables:
            table = table.setdefault(part, {})
        items = config.get_string_list(key)
        table[name] = items if len(items) > 1 else config.get_string(key)
    return found


def _result_of(error: BaseException) -> Status:
    """Returns ``STATUS_STOP`` if a unit asked for the flow's end, else a fault."""
    for inner in getattr(error, "exceptions", (error,)):
        if isinstance(inner.__cause__, StopFlow):
            return Status(StatusCode.STATUS_STOP, inner.__cause__.status.errormsg())
    return status_of(error)
