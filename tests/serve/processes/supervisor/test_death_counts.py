"""Tests of the number of deaths after which a version is taken out of service."""

import pytest

from modelflow.serve.activity import ActivityState
from modelflow.serve.processes.supervisor.restart import DeathCounts, Suspect

A, B = ("a", 1), ("b", 1)
LOADS = {version: Suspect(version, ActivityState.LOADING) for version in (A, B)}
WORKS = {version: Suspect(version, ActivityState.WORKING) for version in (A, B)}


def loaded(version, since):
    return Suspect(version, ActivityState.LOADING, since)


@pytest.mark.parametrize(
    ("suspect", "why"),
    [
        (loaded(A, 0.5), "it has ended its process 2 times while it was loaded"),
        (WORKS[A], "it has ended its process 2 times while it worked for requests"),
    ],
)
def test_the_second_death_takes_it_out_of_service(suspect, why):
    deaths = DeathCounts()
    assert deaths.note([suspect], 0.0) == {}
    assert deaths.note([suspect], 1.0) == {A: why} == deaths.condemned
    assert deaths.note([suspect], 2.0) == {}  # told once


def test_of_several_that_were_loaded_each_is_loaded_alone_and_the_one_that_does_it_again_is_out():
    deaths = DeathCounts()
    assert deaths.note([*LOADS.values()], 0.0) == {}
    assert deaths.suspects == [A, B]
    assert set(deaths.note([loaded(A, 0.5)], 1.0)) == {A}
    assert deaths.suspects == [B]
    deaths.note_loaded(B)
    assert deaths.suspects == []
    assert deaths.note([LOADS[B]], 2.0) == {}  # its first


def test_one_that_is_loaded_alone_beside_others_that_work_is_out_at_the_second_death():
    deaths = DeathCounts()
    assert deaths.note([loaded(A, 0.0), WORKS[B]], 1.0) == {}
    assert deaths.suspects == [A]
    assert set(deaths.note([loaded(A, 2.0), WORKS[B]], 3.0)) == {A}


def test_what_several_processes_load_at_a_time_counts_once():
    deaths = DeathCounts()
    assert deaths.note([loaded(A, 0.0)], 1.0) == {}
    assert deaths.note([loaded(A, 0.5)], 1.5) == {}  # the process began before the first had ended
    assert set(deaths.note([loaded(A, 1.2)], 2.0)) == {A}


def test_deaths_of_several_together_take_none_out_of_service():
    deaths = DeathCounts()
    for moment in range(5):
        assert deaths.note([*LOADS.values(), *WORKS.values()], moment) == {}


def test_of_several_that_worked_nothing_is_known():
    deaths = DeathCounts()
    deaths.note([*WORKS.values()], 0.0)
    assert deaths.note([WORKS[A]], 1.0) == {}
    assert deaths.suspects == []


def test_deaths_for_different_reasons_are_counted_apart_and_old_ones_not_at_all():
    deaths = DeathCounts()
    deaths.note([LOADS[A]], 0.0)
    assert deaths.note([WORKS[A]], 1.0) == {}
    assert deaths.note([WORKS[A]], 3601.5) == {}
    assert set(deaths.note([WORKS[A]], 3700.0)) == {A}


def test_what_is_forgotten_begins_anew():
    deaths = DeathCounts()
    deaths.note([WORKS[A]], 0.0)
    deaths.note([WORKS[A]], 1.0)
    deaths.forget(A)
    assert deaths.condemned == {}
    assert deaths.note([WORKS[A]], 2.0) == {}
