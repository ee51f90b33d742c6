"""Tests of the slowest requests of each second."""

from hypothesis import given
from hypothesis import strategies as st

from modelflow.profile.recording import SlowRequests

ENDED = st.lists(st.tuples(st.integers(0, 79), st.integers(1, 400)), max_size=60)


@given(ENDED, st.integers(1, 4))
def test_of_each_second_those_are_kept_that_took_longest(ended, most):
    slow = SlowRequests(most)
    requests = [(name, when / 16, took / 16) for name, (when, took) in enumerate(ended)]
    for name, when, took in requests:
        slow.add(name, when, took)
    early = slow.take(3.0)
    late = slow.take(float("inf"))
    assert all(when < 3.0 for _, when in early)
    assert all(when >= 3.0 for _, when in late)
    for found in (early, late):
        assert [when for _, when in found] == sorted(when for _, when in found)
    kept = {name for name, _ in early + late}
    for second in range(5):
        inside = sorted((took, name) for name, when, took in requests if int(when) == second)
        assert kept & {name for _, name in inside} == {name for _, name in inside[-most:]}
    assert slow.take(float("inf")) == []
