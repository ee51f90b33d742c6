"""`Flow` and `FlowGraphDesc`: ModelBox's calls over modelflow's own."""

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
        """Returns the name of the port; ``""`` where it is a number, and the node does not say."""
        return self.ref().port or ""


class FlowNodeDesc(NativeFlowNodeDesc):
    """A node of a `FlowGraphDesc`."""

    def __getitem__(self, port: str | int) -> FlowPortDesc:
        return FlowPortDesc(self, port)

    def get_node_name(self) -> str:
        """Returns its name."""
        return self.name

    def set_node_name(self, name: str) -> None:
        """Gives it another name."""
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
        """Leaves the built-in and installed units out."""
        self._set("driver", "skip-default", is_skip)

    def set_profile_dir(self, profile_dir: str) -> None:
        """Sets the folder that profiles go to."""
        self._set("profile", "dir", profile_dir)

    def set_profile_trace_enable(self, profile_trace_enable: bool) -> None:
        """Records every execution for the timeline."""
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
            device: Where it runs.
            config: ``["key=value", ...]``; or the source, where no ``source`` follows.
            source: A node, ``node["port"]``, or ``{input: port}``.

        Raises:
            ConfigError: a config of another form.
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
            name += f"_{called}"  # so that errors say which
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
        """Connects a node given whole: each of its outputs to an input, in order."""
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

# ModelBox's sessions hold any number of results that nobody has read.
_UNBOUNDED = 1 << 40


Format = IntEnum("Format", "FORMAT_AUTO FORMAT_TOML FORMAT_JSON", start=0)
"""The forms of a graph file."""


class Flow:
    """A graph and its running engine. Calls return a `Status`, and raise nothing of modelflow's."""

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

        ``init(path, format)``, ``init(name, text, format)``, ``init(FlowGraphDesc)`` or
        ``init(Configuration)``. What is wrong with the graph itself is told by `build`.
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
        """Reads the graph whose ``[flow] name`` is ``name``; ``args`` replace ``$name`` in it."""
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
            self._failure = error  # ModelBox finds these when it builds
            return Status()
        return status_of(error, StatusCode.STATUS_BADCONF)

    # -- running --------------------------------------------------------------------------------

    def build(self) -> Status:
        """Makes everything that the graph needs, but threads."""
        if self._failure is not None:
            return status_of(self._failure, StatusCode.STATUS_BADCONF)
        return self._try(lambda flow: flow.scheduler)

    def start_run(self) -> Status:
        """Builds and starts the flow."""
        status = self.build()
        return self._try(NativeFlow.start) if status else status

    run_async = start_run

    def run(self) -> Status:
        """Runs the flow until it ends."""
        result = self.start_run()
        if result:
            self.wait(0, result)
            self.stop()
        return result

    def wait(self, timemout: float = 0, retval: Status | None = None) -> Status:
        """Waits until the flow ends.

        Args:
            timemout: Longest wait in milliseconds; 0: as long as it takes; below: look only.
            retval: Becomes the result of the flow.

        Returns:
            A success where it has ended; ``STATUS_TIMEDOUT`` or ``STATUS_BUSY`` where it has not;
            ``STATUS_SHUTDOWN`` where that was told before.
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
        """Ends the flow: what was sent is still worked on; every thread ends."""
        if self._flow is None:
            return Status()
        try:
            self._flow.stop()
        except FlowFailed as error:
            self._result = _result_of(error)
        return Status()

    def create_external_data_map(self) -> ExternalDataMap | None:
        """Opens a session; None where the graph has no inputs or the flow does not run."""
        return self._open(ExternalDataMap)

    def create_stream_io(self) -> FlowStreamIO | None:
        """Opens a session; None where the graph has no inputs or the flow does not run."""
        return self._open(lambda flow: FlowStreamIO(flow.create_stream_io()))

    def _open(self, make: Callable[[NativeFlow], T]) -> T | None:
        if self._flow is None:
            return None
        try:
            return make(self._flow)
        except StreamError as error:
            logger.warning("no session was opened: %s", error)
            return None  # ModelBox's answer

    def _try(self, step: Callable[[NativeFlow], Any]) -> Status:
        if self._flow is None:
            return Status(StatusCode.STATUS_NODATA, "no graph was read; call init")
        try:
            step(self._flow)
        except PlanError as error:
            return status_of(error, StatusCode.STATUS_BADCONF)
        except FlowFailed as error:
            result = _result_of(error)
            # A unit that asks for the end at once: the flow did start; `wait` tells its result.
            return Status() if result == StatusCode.STATUS_STOP else result
        except ModelflowError as error:
            return status_of(error)
        return Status()


_FORMS = {Format.FORMAT_TOML: "toml", Format.FORMAT_JSON: "json"}


def _nested(config: Configuration) -> dict[str, Any]:
    """The values of dotted names as tables in tables."""
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
    """The flow's result: ``STATUS_STOP`` where a unit asked for its end, else a fault."""
    for inner in getattr(error, "exceptions", (error,)):
        if isinstance(inner.__cause__, StopFlow):
            return Status(StatusCode.STATUS_STOP, inner.__cause__.status.errormsg())
    return status_of(error)
