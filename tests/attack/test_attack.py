"""A few moments of the attack; see the package for more of them."""

import importlib
import itertools
import sys
import threading

import pytest

from modelflow import Flow, flowunit
from tests.alarms import is_interrupted_at
from tests.attack.flows import attack_flows
from tests.attack.graphs_run import attack_programs
from tests.attack.ready import attack_ready
from tests.attack.traces import LONG

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@flowunit
def same(value):
    return value


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 14),
    reason="in Python 3.14, a Ctrl-C may also come while a lock is taken (gh-148874)",
)
def test_a_ctrl_c_at_any_place_of_a_start_is_raised_and_leaves_no_thread():
    # An interrupted import leaves its file open.
    importlib.import_module("modelflow.runtime.scheduler")
    importlib.import_module("modelflow.profile.profile_section")
    before = threading.enumerate()
    graph = "digraph { a [type=input]; s [flowunit=same, threads=2]; b [type=output]; a -> s -> b }"
    for number in itertools.count(1):
        flow = Flow(graph, units=[same], stop_timeout=LONG)
        assert not flow.scheduler.is_running
        is_interrupted = is_interrupted_at(number, flow.start)
        flow.stop(drain=False)
        assert threading.enumerate() == before, f"at place {number}"
        if not is_interrupted:
            break
    assert number > 50, "the start was not interrupted where it starts threads"


def test_flows_that_end_at_random_moments_leave_nothing_behind():
    counts, _ = attack_flows(30, number=1)
    assert sum(counts.values()) == 30


@pytest.mark.slow
def test_ready_graphs_that_end_at_random_moments_leave_nothing_behind(tmp_path):
    names = ["files, threads", "files, two broken"]
    found = attack_ready(8, 1, tmp_path, names)
    assert [sum(found[name]["counts"].values()) for name in names] == [8, 8]


@pytest.mark.slow
def test_programs_that_signals_end_leave_nothing_behind(tmp_path):
    names = {"files, thread", "files, process", "files, broken"}
    codes, _ = attack_programs(3, 1, tmp_path, names)
    assert sum(codes.values()) == 3
