"""Tests of the processor time of a thread."""

import threading
import time

import pytest

from modelflow.runtime.stats.processor_time import NOTHING, ThreadTime


def burn():
    """Computes until the thread's own clock has advanced by 30 ms."""
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no /proc on this system")
def test_what_a_thread_has_used_grows_is_seen_by_others_and_stays_when_it_ends():
    found, began, go_on = [], threading.Event(), threading.Event()

    def work():
        mine = ThreadTime()
        found.append(mine)
        burn()
        began.set()
        go_on.wait(60)
        burn()
        mine.end()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait(60)
    first = found[0].seconds()[0]
    go_on.set()
    thread.join()
    assert first >= 0.02
    assert found[0].seconds()[0] >= first + 0.02
    assert found[0].seconds() == found[0].seconds()


def test_a_thread_that_is_gone_without_a_word_has_used_nothing_that_is_known():
    found = []
    thread = threading.Thread(target=lambda: found.append(ThreadTime()))
    thread.start()
    thread.join()
    while found[0].seconds() != NOTHING:  # the system forgets the thread a moment later
        time.sleep(0)
    assert found[0].seconds() == NOTHING
