"""Tests of requests as discrete events, compared with queueing theory."""

import pytest

from modelflow.insight.tune.cost import INTERPRETER, StageCost
from modelflow.insight.tune.settings import Settings, StageSettings
from modelflow.insight.tune.simulate import simulate


def stage(name, seconds, **more):
    return StageCost(name, more.pop("visits", 1.0), {1: seconds}, **more)


def settings(**stages):
    return Settings({name: StageSettings(one[0], one[1], 32) for name, one in stages.items()})


def test_one_client_waits_for_each_stage_in_turn():
    costs = {"a": stage("a", 0.01), "b": stage("b", 0.03)}
    found = simulate(costs, settings(a=(1, 1), b=(1, 1)), 2, clients=1)
    assert found.rate == pytest.approx(1 / 0.04)
    assert found.latency.percentile(99) == pytest.approx(0.04)


@pytest.mark.parametrize(("threads", "rate"), [(1, 1 / 0.03), (2, 2 / 0.03), (8, 1 / 0.01)])
def test_many_clients_get_what_the_slowest_stage_can(threads, rate):
    costs = {"a": stage("a", 0.01), "b": stage("b", 0.03)}
    found = simulate(costs, settings(a=(1, 1), b=(threads, 1)), 2, clients=64)
    assert found.rate == pytest.approx(rate, rel=0.02)


def test_clients_rate_and_latency_keep_littles_law():
    costs = {"a": stage("a", 0.01), "b": stage("b", 0.03)}
    found = simulate(costs, settings(a=(2, 1), b=(2, 1)), 2, clients=10, requests=4000)
    mean = found.latency.mean
    assert found.rate * mean == pytest.approx(10, rel=0.02)


def test_poisson_arrivals_at_one_server_wait_as_pollaczek_and_khinchine_say():
    # M/D/1 at utilisation 0.5: wait = rho / (2 (1 - rho)) calls = half a call.
    costs = {"a": stage("a", 0.01)}
    found = simulate(costs, settings(a=(1, 1)), 2, rate=50.0, requests=20_000)
    mean = found.latency.mean
    assert mean == pytest.approx(0.015, rel=0.05)
    assert found.rate == pytest.approx(50.0, rel=0.05)


def test_batches_take_what_waits_and_share_a_call():
    costs = {"a": StageCost("a", 1.0, {1: 0.0101, 2: 0.0102, 8: 0.0108})}
    found = simulate(costs, settings(a=(1, 8)), 2, clients=64)
    assert found.rate == pytest.approx(8 / 0.0108, rel=0.02)
    lone = simulate(costs, settings(a=(1, 8)), 2, clients=1)
    assert lone.rate == pytest.approx(1 / 0.0101, rel=0.01)


def test_a_timeout_holds_rows_back_that_nobody_joins():
    costs = {"a": stage("a", 0.01)}
    waiting = Settings({"a": StageSettings(1, 8, 32, 20.0)})
    found = simulate(costs, waiting, 2, clients=1)
    assert found.latency.percentile(50) == pytest.approx(0.03)


def test_what_computes_shares_the_processors_and_what_is_locked_one_interpreter():
    busy = {"a": stage("a", 0.01, computing=1.0)}
    assert simulate(busy, settings(a=(8, 1)), 2, clients=64).rate == pytest.approx(200, rel=0.1)
    locked = {"a": stage("a", 0.01, computing=1.0, lock=INTERPRETER)}
    assert simulate(locked, settings(a=(8, 1)), 2, clients=64).rate == pytest.approx(100, rel=0.1)


def test_rows_that_a_request_becomes_are_all_waited_for():
    costs = {"a": stage("a", 0.01), "b": stage("b", 0.01, visits=3.0)}
    found = simulate(costs, settings(a=(1, 1), b=(1, 1)), 2, clients=1)
    assert found.latency.percentile(50) == pytest.approx(0.04)
    costs = {"a": stage("a", 0.01), "b": stage("b", 0.01, visits=0.25)}
    found = simulate(costs, settings(a=(1, 1), b=(1, 1)), 2, clients=1, requests=4000)
    assert found.rate == pytest.approx(1 / 0.0125, rel=0.03)


def test_the_same_seed_gives_the_same():
    costs = {"a": stage("a", 0.01, visits=0.5)}
    one, other = (simulate(costs, settings(a=(1, 1)), 2, rate=80.0, seed=7) for _ in range(2))
    assert one.rate == other.rate
    assert list(one.latency.seconds) == list(other.latency.seconds)


@pytest.mark.parametrize(("at_once", "rate"), [(1.0, 100), (4.0, 400), (0.5, 50)])
def test_a_device_runs_some_calls_at_a_time_whatever_the_threads(at_once, rate):
    costs = {"a": stage("a", 0.01, at_once=at_once)}
    found = simulate(costs, settings(a=(8, 1)), 2, clients=64)
    assert found.rate == pytest.approx(rate, rel=0.1)


def test_stages_with_one_lock_wait_for_each_other():
    costs = {name: stage(name, 0.01, lock="shared") for name in "ab"}
    found = simulate(costs, settings(a=(1, 1), b=(1, 1)), 2, clients=64)
    assert found.rate == pytest.approx(50, rel=0.1)
