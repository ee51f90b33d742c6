"""Loads and configures OpenCV, and names its interpolations."""

import sys
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, Literal

Interpolation = Literal[
    "inter_nearest",
    "inter_linear",
    "inter_cubic",
    "inter_area",
    "inter_lanczos4",
    "inter_linear_exact",
    "inter_nearest_exact",
    "inter_nn",
    "inter_super",
    "inter_lanczos",
]

INTERPOLATION_HELP = (
    "OpenCV's interpolation. On cpu inter_area costs more than the decoding of a JPEG. To 224x224 "
    "it takes 8 times (from 400x300) to 50 times (from 1920x1080) as long as inter_linear."
)
"""The help text of every option of type `Interpolation`."""

_FATAL = 1  # OpenCV's log level for fatal errors only

# ModelBox uses other names for the same interpolations on its CUDA device.
_ALIASES = {
    "inter_nn": "inter_nearest",
    "inter_super": "inter_area",
    "inter_lanczos": "inter_lanczos4",
}


@cache
def opencv() -> Any:
    """Returns the module ``cv2``, configured for a pipeline. Any thread may call this function.

    OpenCV's own threads are switched off for the whole process. The worker threads of a node
    already use all processors, and nested threads would only wait for each other. OpenCV's messages
    on stderr are switched off, too, because every error is raised as an exception.
    """
    import cv2

    cv2.setNumThreads(1)
    # OpenCV 5 has `setLogLevel`, OpenCV 4 the longer name.
    set_level = getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel
    set_level(_FATAL)
    return cv2


def uses_opencv(module: ModuleType) -> bool:
    """Tells whether a unit's module imports a name from a module that calls `opencv`.

    For such a module a flow imports ``cv2`` before its threads start. The loader of ``cv2``
    restores an earlier copy of ``sys.path`` and would remove entries that a unit on another thread
    has inserted.
    """
    values = list(vars(module).values())
    names = {value.__module__ for value in values if isinstance(value, FunctionType | type)}
    modules = [module, *(sys.modules[name] for name in names & sys.modules.keys())]
    return any(vars(each).get("opencv") is opencv for each in modules)


def interpolation_flag(name: Interpolation) -> int:
    """Returns OpenCV's constant for an interpolation's name (``inter_linear``)."""
    flag: int = getattr(opencv(), own_name(name).upper())
    return flag


def own_name(name: Interpolation) -> str:
    """Returns OpenCV's name of an interpolation (``inter_area`` for ``inter_super``)."""
    return _ALIASES.get(name, name)
