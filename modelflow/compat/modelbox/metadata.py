"""Small stores of values: of a stream, of an event, of a session."""

import threading
import uuid
from typing import Any

from modelflow.compat.modelbox.configuration import Configuration

__all__ = ["DataMeta", "FlowUnitError", "FlowUnitEvent", "SessionContext", "Store"]

# Where a session keeps its configuration and its identifier among its own values.
_CONFIG, _ID = "modelbox.session_config", "modelbox.session_id"
_lock = threading.Lock()


class MissingValueError(KeyError, RuntimeError):
    """No value of that name was set."""


class Store:
    """Values by name."""

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values = {} if values is None else values

    def set_private(self, key: str, value: Any) -> None:
        """Stores any object."""
        self._values[key] = value

    def get_private(self, key: str) -> Any:
        """Returns what was stored.

        Raises:
            MissingValueError: nothing was; those that are there are named.
        """
        if key not in self._values:
            known = ", ".join(map(repr, self._values)) or "none"
            message = f"no value {key!r} was set (values: {known})"
            raise MissingValueError(message)
        return self._values[key]

    def set_private_string(self, key: str, value: str) -> None:
        """Stores a text."""
        self._values[key] = str(value)

    def get_private_string(self, key: str) -> str:
        """Returns a text; raises as `get_private` does."""
        return str(self.get_private(key))

    def set_private_int(self, key: str, value: int) -> None:
        """Stores an integer."""
        self._values[key] = int(value)

    def get_private_int(self, key: str) -> int:
        """Returns an integer; raises as `get_private` does."""
        return int(self.get_private(key))


class DataMeta(Store):
    """The values that belong to a stream as a whole."""


class FlowUnitEvent(Store):
    """What `DataContext.send_event` carries to the next call of the unit."""


class SessionContext(Store):
    """The values that all units of a session share."""

    def get_session_config(self) -> Configuration:
        """Returns the session's configuration."""
        with _lock:
            found: Configuration = self._values.setdefault(_CONFIG, Configuration())
            return found

    def get_session_id(self) -> str:
        """Returns an identifier that no other session has."""
        with _lock:
            return str(self._values.setdefault(_ID, str(uuid.uuid4())))


class FlowUnitError:
    """A description of what went wrong."""

    def __init__(self, *parts: Any) -> None:
        """Takes a description, or the node, the place of the error, and a `Status`."""
        self._parts = parts

    def get_description(self) -> str:
        """Returns the description."""
        return ": ".join(map(str, self._parts))
