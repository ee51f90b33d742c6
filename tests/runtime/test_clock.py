"""The clock that waits go by."""

import threading

from modelflow.runtime.clock import SYSTEM_CLOCK


def test_time_never_goes_back():
    assert SYSTEM_CLOCK.now() <= SYSTEM_CLOCK.now()


def test_a_wait_that_is_not_woken_says_so():
    condition = threading.Condition()
    with condition:
        assert not SYSTEM_CLOCK.wait(condition, 0.0)
