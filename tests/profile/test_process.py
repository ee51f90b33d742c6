"""Tests of the statistics of the process and the machine."""

import threading
import time

from modelflow.profile.process import LockProbe, process_figures


def test_what_the_process_uses_is_seen():
    before = process_figures()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    after = process_figures()
    assert after["processor_seconds"] - before["processor_seconds"] >= 0.05
    assert after["machine_busy_seconds"] >= before["machine_busy_seconds"]
    assert after["resident_bytes"] > 1 << 20


def test_the_probe_measures_while_its_block_runs_and_leaves_no_thread():
    with LockProbe() as probe:
        while not probe.figures:
            time.sleep(0.001)
    assert probe.figures["lock_wait_seconds"] >= 0
    assert not [t for t in threading.enumerate() if t.name == "modelflow-profile/lock"]
    assert not LockProbe().figures
