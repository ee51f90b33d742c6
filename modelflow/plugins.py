"""Classes that are found by a name: modelflow's own, and those of installed packages.

An engine of another package says in its ``pyproject.toml``
``[project.entry-points."modelflow.engines"] NAME = "package.module:Class"``; graphs then say
``virtual_type = "NAME"``. Devices and the targets of `output_broker` are found the same way.
"""

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from modelflow.errors import did_you_mean

Base = TypeVar("Base")


def find_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Returns the entry points of a group, of all installed packages.

    They are read again when a folder in which packages are looked for has changed.
    """
    return _read_entry_points(group, *sys.path, *map(_read_change_time, sys.path))


@functools.lru_cache(maxsize=16)
def _read_entry_points(group: str, *_: object) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _read_change_time(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


class Plugins(Generic[Base]):
    """The classes of one purpose, by name; each is imported when it is first asked for.

    Safe from any thread.
    """

    instances: dict[str, Base]
    """Those that `find` has made, by name; what is put here is found."""

    def __init__(
        self,
        group: str,
        what: str,
        base: type[Base],
        built_in: Mapping[str, str],
        error: Callable[[str], Exception],
    ) -> None:
        """Imports nothing.

        Args:
            group: The entry-point group of classes in other packages.
            what: What such a class is, for messages: ``"engine"``.
            base: What each must be a subclass of.
            built_in: Name -> ``"package.module:Class"``, of those that come with modelflow.
            error: Makes the exception of a message.
        """
        self._group = group
        self._what = what
        self._base = base
        self._built_in = dict(built_in)
        self._error = error
        self._names: tuple[str, ...] | None = None
        self._classes: dict[str, type[Base]] = {}
        self.instances = {}
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Forgets what was found: packages may have been installed since."""
        with self._lock:
            self._names = None
            self._classes, self.instances = {}, {}

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        return {point.name: point for point in find_entry_points(self._group)}

    def names(self) -> tuple[str, ...]:
        """Returns every name, the built-in ones first."""
        if self._names is None:
            others = sorted(self._entry_points().keys() - self._built_in.keys())
            self._names = (*self._built_in, *others)
        return self._names

    def find(self, name: str) -> Base:
        """Returns the one instance of the class of that name, made without arguments.

        Raises:
            Exception: see `class_of`.
        """
        found = self.instances.get(name)
        if found is None:
            with self._lock:
                found = self.instances.get(name) or self.class_of(name)()
                self.instances[name] = found
        return found

    def class_of(self, name: str) -> type[Base]:
        """Returns the class of that name.

        Raises:
            Exception: (as given) there is none, it cannot be imported, or it is something else.
        """
        found = self._classes.get(name)
        if found is None:
            with self._lock:
                found = self._classes[name] = self._classes.get(name) or self._import(name)
        return found

    def _import(self, name: str) -> type[Base]:
        loaded: object
        if name in self._built_in:
            module, _, attribute = self._built_in[name].partition(":")
            loaded = getattr(importlib.import_module(module), attribute)
        else:
            loaded = self._load(name)
        if not (isinstance(loaded, type) and issubclass(loaded, self._base)):
            base = f"{self._base.__module__}.{self._base.__qualname__}"
            raise self._error(
                f"{self._what} {name!r}: got {loaded!r}; expected a subclass of {base}"
            )
        return loaded

    def _load(self, name: str) -> object:
        point = self._entry_points().get(name)
        if point is None:
            known = self.names()
            raise self._error(
                f"unknown {self._what} {name!r}{did_you_mean(name, known)}; "
                f"known: {', '.join(known)}"
            )
        try:
            loaded: object = point.load()
        except (ImportError, AttributeError) as error:
            raise self._error(
                f"{self._what} {name!r}: its plug-in {point.value!r} cannot be imported: {error}"
            ) from error
        return loaded
