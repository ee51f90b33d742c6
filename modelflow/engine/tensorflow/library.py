"""The package ``tensorflow`` itself: loaded once, quietly."""

import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from modelflow.device.driver import device_count
from modelflow.engine.engine import import_package
from modelflow.errors import EngineError

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Notices that TensorFlow's libraries print while they are loaded, at any log level.
_NOTICE = re.compile(
    rb"(WARNING: All log messages before absl|[IW]\d{4} \d\d:\d\d:|To enable the following instr)"
)

# The process in which TensorFlow has run first: only that process has TensorFlow's threads.
_started_in: dict[str, int] = {}

# TensorFlow's import, Keras's loaders and tracing share state of the process.
loading = threading.RLock()


def load_tensorflow() -> Any:
    """Returns the module ``tensorflow``.

    The first call imports it, with its notices silenced unless the user has set
    ``TF_CPP_MIN_LOG_LEVEL`` or the level of the logger ``tensorflow``.

    Raises:
        MissingDependencyError: The package is not installed.
        EngineError: The package is installed and cannot be imported, or the process was forked
            after TensorFlow had started.
    """
    with loading:
        started = _started_in.setdefault("process", os.getpid())
        if started != os.getpid():
            raise EngineError(
                f"engine 'tensorflow': process {os.getpid()} was forked from {started}, where "
                "TensorFlow has run. Its threads are not forked: a call would never return. Load "
                "models after the fork (gunicorn without --preload) or start processes by spawn"
            )
        if sys.modules.get("tensorflow") is not None:
            return sys.modules["tensorflow"]
        return _import()


def _import() -> Any:
    logger = logging.getLogger("tensorflow")
    is_level_free = logger.level == logging.NOTSET
    silence: AbstractContextManager[None] = nullcontext()
    if _LEVEL not in os.environ:
        # Without a driver TensorFlow reports its absence as an error.
        os.environ[_LEVEL] = "2" if device_count() else "3"
        silence = _drop_start_up_notices()
    with silence:
        tensorflow = import_package("tensorflow", "tensorflow")
    if is_level_free:
        logger.setLevel(logging.ERROR)
    return tensorflow


@contextmanager
def _drop_start_up_notices() -> Iterator[None]:
    """Delays the output to standard error until the end, and drops the notices."""
    try:
        saved = os.dup(2)
    except OSError:  # standard error is closed: there is no output to collect
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            kept = b"".join(line for line in held if not _NOTICE.match(line))
            if kept:
                os.write(2, kept)
