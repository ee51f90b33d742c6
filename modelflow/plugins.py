"""Classes that are found by name, in modelflow and in installed packages.

A package with an engine declares in its ``pyproject.toml``
``[project.entry-points."modelflow.engines"] NAME = "package.module:Class"``. Graphs then use
``virtual_type = "NAME"``. Devices and the targets of `output_broker` are found the same way.
"""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from modelflow.errors import did_you_mean
from modelflow.signals import new_lock

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Base = TypeVar("Base")


def find_entry_points(group: str) -> "tuple[EntryPoint, ...]":
    """Returns the entry points of a group in all installed packages.

    The entry points are cached until a folder of ``sys.path`` changes.
    """
    return _read_entry_points(group, *sys.path, *map(_read_change_time, sys.path))


@functools.lru_cache(maxsize=16)
def _read_entry_points(group: str, *_: object) -> "tuple[EntryPoint, ...]":
    # Here, because it takes longer to import than the names that are built in take to find.
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _read_change_time(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


class Plugins(Generic[Base]):
    """The classes of one purpose by name, each imported on first use.

    Safe from any thread.
    """

    instances: dict[str, Base]
    """The instances of `find`, by name; `find` also returns instances that you put here."""

    def __init__(
        self,
        group: str,
        what: str,
        base: type[Base],
        built_in: Mapping[str, str],
        error: Callable[[str], Exception],
    ) -> None:
        """Stores the names, and imports no class.

        Args:
            group: The entry-point group of classes in other packages.
            what: The noun for such a class in messages, as in ``"engine"``.
            base: The base class of all these classes.
            built_in: Name -> ``"package.module:Class"``, for the classes of modelflow.
            error: Makes an exception from a message.
        """
        self._group = group
        self._what = what
        self._base = base
        self._built_in = dict(built_in)
        self._error = error
        self._names: tuple[str, ...] | None = None
        self._classes: dict[str, type[Base]] = {}
        self.instances = {}
        self._lock = new_lock()

    def refresh(self) -> None:
        """Clears the cached names and classes, because packages may have been installed since."""
        with self._lock:
            self._names = None
            self._classes, self.instances = {}, {}

    def _entry_points(self) -> "Mapping[str, EntryPoint]":
        return {point.name: point for point in find_entry_points(self._group)}

    def names(self) -> tuple[str, ...]:
        """Returns every name, the built-in ones first."""
        found = self._names  # read once, because `refresh` may clear it meanwhile
        if found is None:
            others = sorted(self._entry_points().keys() - self._built_in.keys())
            found = self._names = (*self._built_in, *others)
        return found

    def find(self, name: str) -> Base:
        """Returns the shared instance of the class of that name, made without arguments.

        Raises:
            Exception: See `class_of`.
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
            Exception: The class is missing, cannot be imported, or has another base. The type is
                that of the argument ``error``.
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
