"""A few moments of the attack; see the package for more of them."""

import sys

import pytest

from tests.attack.flows import attack_flows
from tests.attack.graphs_run import attack_programs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_flows_that_end_at_random_moments_leave_nothing_behind():
    counts, _ = attack_flows(60, number=1)
    assert sum(counts.values()) == 60


@pytest.mark.slow
def test_programs_that_signals_end_leave_nothing_behind(tmp_path):
    codes, _ = attack_programs(6, 1, tmp_path, {"files, thread", "files, process"})
    assert sum(codes.values()) == 6
