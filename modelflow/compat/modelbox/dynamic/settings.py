"""What a `ModelBoxEngine` is told of all its graphs."""

from collections.abc import Mapping
from typing import Any

from modelflow.compat.modelbox.configuration import Configuration
from modelflow.errors import ConfigError, did_you_mean

# Keys, without their section, and how a FlowGraphDesc is told of them.
_SETTINGS = {
    "dir": "set_drivers_dir",
    "skip-default": "set_skip_default_drivers",
    "queue_size": "set_queue_size",
    "batch_size": "set_batch_size",
}
_WITHOUT_EFFECT = ("queue_size_external",)
_SECTIONS = ("graph", "drivers", "driver")


def engine_settings(config: Configuration | Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a configuration, or of a plain mapping: method -> value.

    What stands in sections that no engine reads is passed over, as everywhere in ModelBox.

    Raises:
        ConfigError: an unknown key, or a value of another form.
        ValueError: a value that a `Configuration` cannot hold.
    """
    values = config if isinstance(config, Configuration) else _configuration(config)
    found = {}
    for key in values.keys():  # noqa: SIM118 - it is no mapping
        section, dot, name = key.rpartition(".")
        if name not in _WITHOUT_EFFECT and (not dot or section in _SECTIONS):
            found[_setting(name)] = _value(values, key, name)
    return found


def _configuration(values: Mapping[str, Any]) -> Configuration:
    found = Configuration()
    for key, value in values.items():
        found.set(key, value)
    return found


def _setting(name: str) -> str:
    if name not in _SETTINGS:
        near, known = did_you_mean(name, _SETTINGS), ", ".join(_SETTINGS)
        message = f"init: unknown key {name!r}{near} (keys: {known})"
        raise ConfigError(message)
    return _SETTINGS[name]


def _value(values: Configuration, key: str, name: str) -> Any:
    if name == "dir":
        return values.get_string_list(key)
    text = values.get_string(key)
    if name == "skip-default":
        if text not in ("true", "false", "1", "0"):
            message = f"init: {key}: got {text!r}; expected true or false"
            raise ConfigError(message)
        return values.get_bool(key)
    if not text.isdecimal() or int(text) == 0:
        message = f"init: {key}: got {text!r}; expected a number from 1"
        raise ConfigError(message)
    return int(text)
