"""Logging: standard `logging` under the name ``modelflow``; a level by ModelBox's names."""

import logging
from typing import Final

from modelflow.errors import ConfigError, did_you_mean

__all__ = ["LEVELS", "set_log_level"]

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
