"""Logging: standard `logging` under the name ``modelflow``; a level by ModelBox's names."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from modelflow.errors import ConfigError, did_you_mean

__all__ = ["LEVELS", "FlowLog", "set_log_level"]

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
        ConfigError: there is no such level.
    """
    number = LEVELS.get(level.upper())
    if number is None:
        names = " ".join(LEVELS)
        message = f"log level: got {level!r}; expected one of {names}{did_you_mean(level, LEVELS)}"
        raise ConfigError(message)
    logging.getLogger("modelflow").setLevel(number)


class FlowLog:
    """The ``[log]`` section of a running flow: its level, and its file with rotation.

    What it changes holds for modelflow's logger, which the process has once; `close` takes the file
    away again.
    """

    def __init__(self, section: Mapping[str, Any], folder: Path) -> None:
        """Obeys the section.

        Args:
            section: ``level``, ``path``, ``screen``, ``num`` (old files kept), ``size`` (bytes).
            folder: What a relative ``path`` is relative to.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._logger = logging.getLogger("modelflow")
        self._propagated = self._logger.propagate
        self._handler: logging.Handler | None = None
        if section.get("level"):
            set_log_level(section["level"])
        if section.get("path"):
            self._handler = _file_handler(folder / section["path"], section)
            self._logger.addHandler(self._handler)
            self._logger.propagate = bool(section.get("screen", True))

    def close(self) -> None:
        """Closes the file. May be called again."""
        if self._handler is not None:
            self._logger.removeHandler(self._handler)
            self._handler.close()
            self._logger.propagate = self._propagated
            self._handler = None


def _file_handler(path: Path, section: Mapping[str, Any]) -> logging.Handler:
    from logging.handlers import RotatingFileHandler

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            path, maxBytes=section["size"], backupCount=section["num"], encoding="utf-8"
        )
    except OSError as error:
        message = f"[log] path: cannot write {path}: {error}"
        raise ConfigError(message) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler
