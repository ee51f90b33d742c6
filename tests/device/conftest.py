"""The toy device, plugged in."""

from importlib.metadata import EntryPoint

import pytest

from modelflow import plugins
from modelflow.device import lookup


@pytest.fixture
def plug_in(monkeypatch):
    """Returns a function that registers entry points, as an installed package does."""

    def install(**values):
        points = tuple(EntryPoint(name, value, lookup.GROUP) for name, value in values.items())
        monkeypatch.setattr(plugins, "find_entry_points", lambda group: points)
        lookup.MEMORIES.refresh()

    yield install
    monkeypatch.undo()
    lookup.MEMORIES.refresh()


@pytest.fixture
def toy(plug_in):
    """Returns the memory of the toy device, which graphs can name."""
    plug_in(toy="tests.device.toy:ToyMemory")
    return lookup.memory_of("toy")
