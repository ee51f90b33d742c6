"""Tests of the functions that tell whether the interpreter has a lock."""

import sys

import pytest

from modelflow.device import interpreter


@pytest.mark.parametrize("is_enabled", [None, True, False])
def test_only_an_interpreter_that_says_so_has_no_lock(monkeypatch, is_enabled):
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    if is_enabled is not None:
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: is_enabled, raising=False)
    assert interpreter.has_lock() == (is_enabled is not False)


def test_a_free_threaded_build_is_known():
    assert interpreter.is_free_threaded() == ("free-threading" in sys.version)
