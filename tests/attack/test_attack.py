"""A few moments of the attack; see the package for more of them."""

import sys

import pytest

from tests.attack.flows import attack_flows
from tests.attack.graphs_run import attack_programs
from tests.attack.ready import attack_ready

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_flows_that_end_at_random_moments_leave_nothing_behind():
    counts, _ = attack_flows(60, number=1)
    assert sum(counts.values()) == 60


@pytest.mark.slow
def test_ready_graphs_that_end_at_random_moments_leave_nothing_behind(tmp_path):
    names = ["files, threads", "files, two broken"]
    found = attack_ready(20, 1, tmp_path, names)
    assert [sum(found[name]["counts"].values()) for name in names] == [20, 20]


@pytest.mark.slow
def test_programs_that_signals_end_leave_nothing_behind(tmp_path):
    names = {"files, thread", "files, process", "files, broken"}
    codes, _ = attack_programs(6, 1, tmp_path, names)
    assert sum(codes.values()) == 6
