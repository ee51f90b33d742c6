"""Tests of the clock of waits."""

import threading

import pytest

from modelflow.runtime.clock import SYSTEM_CLOCK


def test_time_never_goes_back():
    assert SYSTEM_CLOCK.now() <= SYSTEM_CLOCK.now()


def test_a_wait_that_is_not_woken_says_so():
    condition = threading.Condition()
    with condition:
        assert not SYSTEM_CLOCK.wait(condition, 0.0)


class BreakingOff(threading.Condition):
    """A condition that raises Ctrl-C in `wait`, before or after the release of its lock."""

    def __init__(self, has_let_go):
        super().__init__()
        self._has_let_go = has_let_go

    def wait(self, timeout=None):
        if self._has_let_go:
            self.release()
        raise KeyboardInterrupt


@pytest.mark.parametrize("has_let_go", [False, True])
def test_who_waits_holds_the_lock_once_when_ctrl_c_breaks_it_off(has_let_go):
    condition = BreakingOff(has_let_go)
    condition.acquire()
    with pytest.raises(KeyboardInterrupt):
        SYSTEM_CLOCK.wait(condition)
    condition.release()
    assert not condition._is_owned()
