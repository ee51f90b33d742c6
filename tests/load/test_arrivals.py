"""When requests are due."""

import itertools

import numpy as np
import pytest

from modelflow.insight.load.pace import arrivals_of

COUNT = 20_000


def moments(kind="poisson", rate=50.0, seed=1):
    return np.array(list(itertools.islice(arrivals_of(kind, rate, seed), COUNT)))


def test_gaps_of_a_poisson_process_are_exponential():
    gaps = np.diff(moments(), prepend=0.0)
    assert (gaps > 0).all()
    # The mean and the deviation of an exponential distribution are equal (1/rate). The tolerance is
    # 4 standard errors.
    assert gaps.mean() == pytest.approx(1 / 50, rel=4 / COUNT**0.5)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.05)
    # Its quantiles: half are below ln 2 of the mean, 1 % above ln 100 of it.
    assert (gaps < np.log(2) / 50).mean() == pytest.approx(0.5, abs=0.02)
    assert (gaps > np.log(100) / 50).mean() == pytest.approx(0.01, abs=0.004)


def test_counts_of_a_poisson_process_vary_as_much_as_their_mean_and_know_nothing_of_each_other():
    counts = np.bincount(moments().astype(int))[:-1]
    assert counts.mean() == pytest.approx(50, rel=0.04)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.3)
    assert abs(np.corrcoef(counts[:-1], counts[1:])[0, 1]) < 4 / len(counts) ** 0.5


def test_a_seed_gives_the_same_moments_and_another_one_others():
    assert (moments(seed=3) == moments(seed=3)).all()
    assert (moments(seed=3) != moments(seed=4)).all()


def test_constant_moments_are_the_same_apart_and_do_not_drift():
    found = moments("constant", rate=3.0)
    assert found[0] == 0.0
    assert found[3000] == 1000.0


def test_there_is_no_other_kind():
    with pytest.raises(ValueError, match="arrivals: got 'uniform'; expected poisson or constant"):
        arrivals_of("uniform", 1.0)
