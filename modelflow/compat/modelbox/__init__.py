"""ModelBox's Python interface, implemented with modelflow, for unedited applications and units.

An application changes one line::

    import modelflow.compat.modelbox as modelbox

Unit folders need no change: ``import modelbox`` and ``import _flowunit as modelbox`` mean this
module there. The behaviour is ModelBox's, including the statuses, with one exception. If ModelBox
ended the whole flow because of one bad buffer, only that buffer fails here.
"""

from modelflow.compat.modelbox.buffer import Buffer, BufferList, Device, ModelBoxDataType
from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.dynamic.data_handler import DataHandler
from modelflow.compat.modelbox.dynamic.engine import ModelBoxEngine
from modelflow.compat.modelbox.flow import Flow, FlowGraphDesc, FlowNodeDesc, FlowPortDesc
from modelflow.compat.modelbox.flowunit import (
    DataContext,
    DataMeta,
    FlowUnit,
    FlowUnitError,
    FlowUnitEvent,
    SessionContext,
)
from modelflow.compat.modelbox.log import (
    Log,
    Logger,
    debug,
    error,
    fatal,
    info,
    notice,
    set_log_level,
    warn,
)
from modelflow.compat.modelbox.model import Model
from modelflow.compat.modelbox.session_io import (
    ExternalDataMap,
    ExternalDataSimple,
    ExtOutputBufferList,
    FlowStreamIO,
    SelectMap,
)
from modelflow.compat.modelbox.source import UNIT_DEFAULTS, ExternalData, as_flow_unit
from modelflow.compat.modelbox.status import Status, StatusCode

__all__ = [
    "UNIT_DEFAULTS",
    "Buffer",
    "BufferList",
    "Configuration",
    "DataContext",
    "DataHandler",
    "DataMeta",
    "Device",
    "ExtOutputBufferList",
    "ExternalData",
    "ExternalDataMap",
    "ExternalDataSimple",
    "Flow",
    "FlowGraphDesc",
    "FlowNodeDesc",
    "FlowPortDesc",
    "FlowStreamIO",
    "FlowUnit",
    "FlowUnitError",
    "FlowUnitEvent",
    "Log",
    "Logger",
    "Model",
    "ModelBoxDataType",
    "ModelBoxEngine",
    "SelectMap",
    "SessionContext",
    "Status",
    "StatusCode",
    "as_flow_unit",
    "debug",
    "error",
    "fatal",
    "info",
    "notice",
    "set_log_level",
    "warn",
]
