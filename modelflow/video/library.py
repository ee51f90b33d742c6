"""The one place that loads PyAV (FFmpeg)."""

from functools import cache
from typing import Any

from modelflow.errors import MissingDependencyError


@cache
def load_av() -> Any:
    """Returns the module ``av``, silent on stderr: what goes wrong is raised.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import av
        import av.logging
    except ModuleNotFoundError as error:
        package = "av"
        raise MissingDependencyError(package, "video", "a video unit") from error
    av.logging.set_level(None)
    return av
