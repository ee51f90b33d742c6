"""The one place that loads OpenCV, and the names of its interpolations."""

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
    "OpenCV's interpolation. On cpu inter_area costs more than decoding a JPEG does: to 224x224 8 "
    "times inter_linear (from 400x300) to 50 times (from 1920x1080)."
)
"""What the option of that type says of itself, wherever a unit has one."""

_FATAL = 1  # of OpenCV's levels of messages

# ModelBox names the same interpolations otherwise on its CUDA device.
_ALIASES = {
    "inter_nn": "inter_nearest",
    "inter_super": "inter_area",
    "inter_lanczos": "inter_lanczos4",
}


@cache
def opencv() -> Any:
    """Returns the module ``cv2``, set up for a pipeline; any thread may call it.

    OpenCV's own threads are switched off for the whole process: the worker threads of a node
    already use the processors, and threads inside threads only wait for each other. Its messages
    on stderr are switched off too, since whatever goes wrong is raised.
    """
    import cv2

    cv2.setNumThreads(1)
    # OpenCV 4 has the one, OpenCV 5 the other.
    set_level = getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel
    set_level(_FATAL)
    return cv2


def uses_opencv(module: ModuleType) -> bool:
    """Tells whether a unit's module imports a name from a module that calls `opencv`.

    A flow imports ``cv2`` then before its threads start: its loader puts an earlier copy of
    ``sys.path`` back, without what a unit on another thread has inserted.
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
    """Returns OpenCV's own name of an interpolation (``inter_area`` for ``inter_super``)."""
    return _ALIASES.get(name, name)
