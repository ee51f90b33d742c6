"""Tests of the distribution of the processors among replicas."""

import os

from modelflow.serve.processes.role import with_share


def test_each_has_threads_for_its_part_of_the_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    assert with_share({}, 3)["OMP_NUM_THREADS"] == "2"
    assert with_share({}, 16)["TF_NUM_INTRAOP_THREADS"] == "1"


def test_what_is_said_of_threads_counts():
    found = with_share({"OMP_NUM_THREADS": "5", "PATH": "/bin"}, 2)
    assert (found["OMP_NUM_THREADS"], found["PATH"]) == ("5", "/bin")
