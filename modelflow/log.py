"""Logging with the standard `logging` under the name ``modelflow``, and ModelBox's level names."""

import contextlib
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from modelflow.errors import ConfigError, did_you_mean

LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "NOTICE": logging.INFO + 5,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}


def set_log_level(level: str) -> None:
    """Sets the level of modelflow's own messages: ``DEBUG INFO NOTICE WARN ERROR FATAL OFF``.

    Raises:
        ConfigError: The level does not exist.
    """
    logging.getLogger("modelflow").setLevel(_number(level))


def _number(level: str) -> int:
    number = LEVELS.get(level.upper())
    if number is None:
        names = " ".join(LEVELS)
        raise ConfigError(
            f"log level: got {level!r}; expected one of {names}{did_you_mean(level, LEVELS)}"
        )
    return number


class FlowLog:
    """The ``[log]`` section of a running flow: its level, and its file with rotation.

    The process has one logger of modelflow, which all running flows with such a section share. Each
    flow gets at least the messages of its own level. The screen shows messages if any of these
    flows asks for that. When the last of them closes, the logger gets its earlier state back,
    unless `set_log_level` was called meanwhile.
    """

    def __init__(self, section: Mapping[str, Any], folder: Path) -> None:
        """Applies the section to the logger.

        Args:
            section: ``level``, ``path``, ``screen``, ``num`` (old files to keep), ``size`` (bytes).
            folder: The folder that a relative ``path`` refers to.

        Raises:
            ConfigError: The level does not exist, or the file cannot be written.
        """
        self.level = _number(section["level"]) if section.get("level") else None
        path = section.get("path")
        self.is_on_screen = not path or bool(section.get("screen", True))
        self._handler = _file_handler(folder / path, section) if path else None
        if self.level is not None or self._handler is not None:
            _shared.add(self)
        if self._handler is not None:
            logging.getLogger("modelflow").addHandler(self._handler)

    def close(self) -> None:
        """Closes the file, and removes this section from the logger. May be called again."""
        _shared.remove(self)
        if self._handler is not None:
            logging.getLogger("modelflow").removeHandler(self._handler)
            self._handler.close()


class _Shared:
    """The logger of the process, which all running flows share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: list[FlowLog] = []
        self._before = self._ours = (0, True)

    def add(self, log: FlowLog) -> None:
        with self._lock:
            if not self._logs:
                self._before = self._ours = self._state()
            self._logs.append(log)
            self._settle()

    def remove(self, log: FlowLog) -> None:
        with self._lock:
            if log in self._logs:
                self._logs.remove(log)
                self._settle()

    def _settle(self) -> None:
        """Sets the logger to the combined wishes of all flows.

        A level or a ``propagate`` that other code has set meanwhile stays.
        """
        logger = logging.getLogger("modelflow")
        wanted, now = self._is_wanted(), self._state()
        if now[0] == self._ours[0]:
            logger.setLevel(wanted[0])
        if now[1] == self._ours[1]:
            logger.propagate = wanted[1]
        self._ours = wanted

    def _is_wanted(self) -> tuple[int, bool]:
        level, is_on_screen = self._before
        if self._logs:
            usual = level or logging.getLogger().level
            levels = [usual if log.level is None else log.level for log in self._logs]
            if any(log.level is not None for log in self._logs):
                level = min(levels)
            is_on_screen &= any(log.is_on_screen for log in self._logs)
        return level, is_on_screen

    def _state(self) -> tuple[int, bool]:
        logger = logging.getLogger("modelflow")
        return logger.level, logger.propagate


_shared = _Shared()


def _file_handler(path: Path, section: Mapping[str, Any]) -> logging.Handler:
    from logging.handlers import RotatingFileHandler  # imports sockets, mail and more

    class LogFile(RotatingFileHandler):
        """A log file that reports a failed write (a full disk) once and goes on."""

        is_failing = False

        def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
            error = sys.exc_info()[1]
            if not isinstance(error, OSError):
                super().handleError(record)
            elif not self.is_failing:
                self.is_failing = True
                text = f"[log] path: cannot write {path}: {error.strerror or error}"
                print(f"{text}; messages are lost there", file=sys.stderr)  # noqa: T201

        def close(self) -> None:
            # The stream still holds text that it could not write, and tries again.
            with contextlib.suppress(OSError):
                super().close()

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = LogFile(
            path, maxBytes=section["size"], backupCount=section["num"], encoding="utf-8"
        )
    except OSError as error:
        raise ConfigError(f"[log] path: cannot write {path}: {error}") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler
