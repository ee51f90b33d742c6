"""Tests of the statistics of the process and the machine."""

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

from modelflow.profile.process import FRONT_END, LockProbe, process_figures
from tests.programs import started


def test_what_the_process_uses_is_seen():
    before = process_figures()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    after = process_figures()
    assert after["processor_seconds"] - before["processor_seconds"] >= 0.05
    assert after["machine_busy_seconds"] >= before["machine_busy_seconds"]
    assert after["resident_bytes"] > 1 << 20


def test_a_child_whose_name_is_cut_within_a_letter_is_counted_as_well(tmp_path):
    named = tmp_path / (10 * "ü")  # Linux keeps 15 bytes of it
    named.symlink_to(Path(sys.executable).resolve())
    program = [named, "-I", "-S", "-c", "print('works', flush=True); input()"]
    pipe = subprocess.PIPE
    with started(program, stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"works\n"
        assert "children_seconds" in process_figures()


def test_the_probe_measures_while_its_block_runs_and_leaves_no_thread():
    with LockProbe() as probe:
        while not probe.figures:
            time.sleep(0.001)
    assert probe.figures["lock_wait_seconds"] >= 0
    assert not [t for t in threading.enumerate() if t.name == "modelflow-profile/lock"]
    assert not LockProbe().figures


def test_garbage_collections_are_timed_from_the_first_look_on():
    before = process_figures()["collection_seconds"]
    gc.collect()
    assert process_figures()["collection_seconds"] > before


def test_children_count_while_they_run_and_after_their_end():
    before = process_figures()["children_seconds"]
    work = "import time\nwhile time.process_time() < 0.2: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert process_figures()["children_seconds"] - before >= 0.15
        child.communicate(b"\n")
    assert process_figures()["children_seconds"] - before >= 0.15


def test_the_threads_that_serve_http_are_told_apart():
    assert "front_ends" not in process_figures()
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name=f"{FRONT_END}127.0.0.1:1")
    thread.start()
    try:
        assert process_figures()["front_ends"] == 1.0
    finally:
        over.set()
        thread.join()


def test_the_gpus_of_the_machine_are_added_up(monkeypatch):
    gpus = [("GPU-0", {"utilization": 0.5, "total": 100, "used": 40})] * 2
    monkeypatch.setattr("modelflow.profile.process.gpu_figures", lambda: gpus)
    figures = process_figures()
    assert (figures["gpus"], figures["gpu_share"], figures["gpu_bytes"]) == (2.0, 1.0, 80.0)
    monkeypatch.setattr("modelflow.profile.process.gpu_figures", list)
    assert "gpus" not in process_figures()
