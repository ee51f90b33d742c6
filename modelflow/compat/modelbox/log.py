"""ModelBox's log functions, over the logger ``modelflow``."""

import logging
import sys
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, ClassVar

from modelflow.log import LEVELS
from modelflow.log import set_log_level as set_level

_logger = logging.getLogger("modelflow")


Level = IntEnum("Level", "DEBUG INFO NOTICE WARN ERROR FATAL OFF", start=0)
"""The levels, in ModelBox's order."""

_Level = Level
Callback = Callable[[_Level, str, int, str, str], Any]


class Logger:
    """The logger of all messages: the standard library's ``modelflow``."""

    def get_log_level(self) -> Level:
        """Returns the level."""
        return _level(_logger.getEffectiveLevel())

    def set_log_level(self, level: Level) -> None:
        """Sets the level."""
        set_log_level(level)


class _CallbackHandler(logging.Handler):
    def __init__(self, callback: Callback) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        level = _level(record.levelno)
        text = record.getMessage()
        self._callback(level, record.filename, record.lineno, record.funcName, text)


class Log:
    """Redirects and writes messages."""

    Level = Level
    _registered: ClassVar[_CallbackHandler | None] = None

    def reg(self, callback: Callback) -> None:
        """Sends every message to ``callback(level, file, lineno, function, message)``."""
        if Log._registered is not None:
            _logger.removeHandler(Log._registered)
        Log._registered = _CallbackHandler(callback)
        _logger.addHandler(Log._registered)

    def get_logger(self) -> Logger:
        """Returns the logger."""
        return Logger()

    def set_logger(self, logger: Logger) -> None:
        """Restores the logger, and removes a registered callback."""
        if Log._registered is not None and isinstance(logger, Logger):
            _logger.removeHandler(Log._registered)
            Log._registered = None

    def set_log_level(self, level: _Level) -> None:
        """Sets the level."""
        set_log_level(level)

    def print(self, level: _Level, message: str) -> None:
        """Writes a message."""
        _logger.log(_number(level), "%s", message, stacklevel=2)

    def print_ext(self, level: _Level, file: str, lineno: int, func: str, message: str) -> None:
        """Writes a message on behalf of another place in the code."""
        number = _number(level)
        if _logger.isEnabledFor(number):
            record = _logger.makeRecord(
                _logger.name, number, file, lineno, "%s", (message,), None, func
            )
            _logger.handle(record)


def set_log_level(level: Level) -> None:
    """Sets the level; messages go to standard error unless logging is configured."""
    if not _logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(
            logging.Formatter("[%(asctime)s][%(levelname)s][%(filename)s:%(lineno)d] %(message)s")
        )
        _logger.addHandler(handler)
    set_level(Level(level).name)


def _write(level: Level, *args: Any) -> None:
    """Writes the arguments, joined by commas."""
    _logger.log(_number(level), "%s", ", ".join(map(str, args)), stacklevel=2)


debug, info, notice, warn, error, fatal = (partial(_write, level) for level in list(Level)[:-1])


def _number(level: Level) -> int:
    return LEVELS[Level(level).name]


def _level(number: int) -> Level:
    return next((Level[name] for name, bound in LEVELS.items() if number <= bound), Level.OFF)
