"""What models share that are loaded together: the signatures of one version of a model."""

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["LoadGroup"]

T = TypeVar("T")


class LoadGroup:
    """The loads of one version of a model: an engine opens once what several of them need.

    Whoever loads a version makes a group and gives it to each load. A reload has a group of its own
    and shares nothing with what it replaces. The models own what they share: the last that releases
    it closes it. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: dict[Hashable, tuple[object, int]] = {}

    def acquire(self, key: Hashable, load: Callable[[], T]) -> T:
        """Returns what another model of the group has loaded, or loads it.

        Args:
            key: What it is; the same key always stands for the same type.
            load: Loads it. What it raises is raised here, and nothing is kept.
        """
        with self._lock:  # a second model waits for the load of the first
            value, users = self._shared.get(key) or (load(), 0)
            self._shared[key] = value, users + 1
            return value  # type: ignore[return-value] # the key says the type

    def release(self, key: Hashable) -> bool:
        """Gives back what `acquire` has returned; tells whether that was its last user."""
        with self._lock:
            value, users = self._shared.pop(key)
            if users > 1:
                self._shared[key] = value, users - 1
            return users == 1
