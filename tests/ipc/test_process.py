"""Tests of the link between a flow's process and its child."""

import os
import signal

import pytest

from modelflow import signals


def test_the_system_ends_a_process_with_its_parent_and_ctrl_c_is_the_parents(monkeypatch):
    asked = []

    class Library:
        def __init__(self, name):
            assert name is None
            self.prctl = lambda *given: asked.append(given)

    monkeypatch.setattr(signals.ctypes, "CDLL", Library)
    monkeypatch.setattr(signal, "signal", lambda *given: asked.append(given))
    signals.end_with(os.getppid())
    with pytest.raises(SystemExit) as caught:  # the parent was gone before the system was asked
        signals.end_with(os.getppid() + 1)
    assert caught.value.code == 1
    assert asked == [(signal.SIGINT, signal.SIG_IGN), (1, signal.SIGKILL)] * 2
