"""The toy device, plugged in."""

from importlib.metadata import EntryPoint

import pytest

from modelflow import plugins
from modelflow.device import lookup


@pytest.fixture
def plug_in(monkeypatch):
    """Makes entry points as an installed package declares them."""

    def install(**values):
        points = tuple(EntryPoint(name, value, lookup.GROUP) for name, value in values.items())
        monkeypatch.setattr(plugins, "find_entry_points", lambda group: points)
        lookup.MEMORIES.refresh()

    yield install
    monkeypatch.undo()
    lookup.MEMORIES.refresh()


@pytest.fixture
def toy(plug_in):
    """The memory of the toy device, which graphs can name."""
    plug_in(toy="tests.device.toy:ToyMemory")
    return lookup.memory_of("toy")
