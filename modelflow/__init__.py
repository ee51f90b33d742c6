"""A pipeline-graph inference framework: the public names of the package.

Each name is imported when you first use it. Importing the package alone therefore loads no engine,
no image library and no parser.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.device import Device, available_devices, empty
    from modelflow.engine.python.model import PythonModel
    from modelflow.errors import (
        BadRequest,
        Cancelled,
        ConfigError,
        CycleError,
        DeadlineExceeded,
        DeviceUnavailableError,
        EndOfStream,
        EngineError,
        FlowFailed,
        FlowUnitError,
        GraphError,
        MissingDependencyError,
        ModelflowError,
        PlanError,
        PortError,
        QueueFullError,
        RecordingError,
        StreamClosed,
        StreamError,
        StreamMismatchError,
        TuningError,
        UnknownFlowUnitError,
    )
    from modelflow.flow import Flow
    from modelflow.graph.in_code import FlowGraphDesc
    from modelflow.graph.read import read_graph
    from modelflow.job.job import Job, JobResult
    from modelflow.log import set_log_level
    from modelflow.model import Model
    from modelflow.stream_io import StreamIO
    from modelflow.unit.advice import Place
    from modelflow.unit.function import flowunit
    from modelflow.unit.kind import (
        Collapse,
        Condition,
        Count,
        Expand,
        Kind,
        Loop,
        Normal,
        Source,
        Stream,
    )
    from modelflow.unit.option import Config, Option, option
    from modelflow.unit.port import Port
    from modelflow.unit.spec import FlowUnitSpec
    from modelflow.unit.unit import Context, FlowUnit

__version__ = "0.1.0"

_HOMES = {
    "modelflow.buffer": "Buffer",
    "modelflow.device": "Device available_devices empty",
    "modelflow.engine.python.model": "PythonModel",
    "modelflow.errors": (
        "BadRequest Cancelled ConfigError CycleError DeadlineExceeded "
        "DeviceUnavailableError EndOfStream EngineError FlowFailed FlowUnitError GraphError "
        "MissingDependencyError ModelflowError PlanError PortError QueueFullError "
        "RecordingError TuningError StreamClosed StreamError StreamMismatchError "
        "UnknownFlowUnitError"
    ),
    "modelflow.flow": "Flow",
    "modelflow.unit.advice": "Place",
    "modelflow.unit.function": "flowunit",
    "modelflow.unit.option": "Config Option option",
    "modelflow.unit.kind": "Collapse Condition Count Expand Kind Loop Normal Source Stream",
    "modelflow.unit.port": "Port",
    "modelflow.unit.spec": "FlowUnitSpec",
    "modelflow.unit.unit": "Context FlowUnit",
    "modelflow.graph.in_code": "FlowGraphDesc",
    "modelflow.graph.read": "read_graph",
    "modelflow.log": "set_log_level",
    "modelflow.job.job": "Job JobResult",
    "modelflow.model": "Model",
    "modelflow.stream_io": "StreamIO",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "BadRequest",
    "Buffer",
    "Cancelled",
    "Collapse",
    "Condition",
    "Config",
    "ConfigError",
    "Context",
    "Count",
    "CycleError",
    "DeadlineExceeded",
    "Device",
    "DeviceUnavailableError",
    "EndOfStream",
    "EngineError",
    "Expand",
    "Flow",
    "FlowFailed",
    "FlowGraphDesc",
    "FlowUnit",
    "FlowUnitError",
    "FlowUnitSpec",
    "GraphError",
    "Job",
    "JobResult",
    "Kind",
    "Loop",
    "MissingDependencyError",
    "Model",
    "ModelflowError",
    "Normal",
    "Option",
    "Place",
    "PlanError",
    "Port",
    "PortError",
    "PythonModel",
    "QueueFullError",
    "RecordingError",
    "Source",
    "Stream",
    "StreamClosed",
    "StreamError",
    "StreamIO",
    "StreamMismatchError",
    "TuningError",
    "UnknownFlowUnitError",
    "__version__",
    "available_devices",
    "empty",
    "flowunit",
    "option",
    "read_graph",
    "set_log_level",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'modelflow' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__
