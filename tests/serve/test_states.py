"""Tests of the states of versions as a matrix, and of the actions that lead to the wanted state."""

import pytest

from modelflow.serve.repository.source import ModelVersion
from modelflow.serve.repository.states import Event, Failure, Instance, reconcile
from modelflow.wire.tf_serving.documents import State

START, LOADING, AVAILABLE, UNLOADING, END = (
    State.START,
    State.LOADING,
    State.AVAILABLE,
    State.UNLOADING,
    State.END,
)
MATRIX = {
    START: {
        Event.BEGIN: LOADING,
        Event.LOAD: AVAILABLE,
        Event.FAIL: END,
        Event.DROP: END,
        Event.RETIRE: None,
        Event.UNLOAD: None,
    },
    LOADING: {
        Event.BEGIN: None,
        Event.LOAD: AVAILABLE,
        Event.FAIL: END,
        Event.DROP: END,
        Event.RETIRE: None,
        Event.UNLOAD: None,
    },
    AVAILABLE: {
        Event.BEGIN: None,
        Event.LOAD: None,
        Event.FAIL: None,
        Event.DROP: None,
        Event.RETIRE: UNLOADING,
        Event.UNLOAD: None,
    },
    UNLOADING: {
        Event.BEGIN: None,
        Event.LOAD: None,
        Event.FAIL: None,
        Event.DROP: None,
        Event.RETIRE: None,
        Event.UNLOAD: END,
    },
    END: dict.fromkeys(Event),
}


def version(number, stamp=0, *, is_whole=True):
    return ModelVersion(number, stamp, is_whole, list)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_event_in_every_state(state, event):
    instance = Instance(version(1), state)
    following = MATRIX[state][event]
    assert instance.step(event) is (following is not None)
    assert instance.state is (following or state)


def actions(wanted, there, failed=(), **more):
    """Returns the actions as words, for example ``load 2``."""
    found = reconcile(
        {one.number: one for one in wanted},
        [Instance(one, state) for one, state in there],
        {one.number: Failure(one, RuntimeError()) for one in failed},
        **more,
    )
    return [
        *(f"drop {one.version.number}" for one in found.drop),
        *(f"load {one.number}" for one in found.load),
        *(f"retire {one.version.number}" for one in found.retire),
    ]


V1, V2, V2_NEW = version(1), version(2), version(2, "new")
GRAPH = version(1, is_whole=False)


@pytest.mark.parametrize(
    ("wanted", "there", "failed", "expected"),
    [
        ([], [], [], []),
        ([V1], [], [], ["load 1"]),
        ([V1], [(V1, START)], [], []),
        ([V1], [(V1, LOADING)], [], []),
        ([V1], [(V1, AVAILABLE)], [], []),
        ([V1], [(V1, UNLOADING)], [], ["load 1"]),
        ([V1], [(V1, END)], [], ["load 1"]),
        ([], [(V1, START)], [], ["drop 1"]),
        ([], [(V1, LOADING)], [], ["drop 1"]),
        ([], [(V1, AVAILABLE)], [], ["retire 1"]),
        ([], [(V1, UNLOADING)], [], []),
        ([], [(V1, END)], [], []),
        # A new version: the older one answers until the new one does.
        ([V2], [(V1, AVAILABLE)], [], ["load 2"]),
        ([V2], [(V1, AVAILABLE), (V2, LOADING)], [], []),
        ([V2], [(V1, AVAILABLE), (V2, AVAILABLE)], [], ["retire 1"]),
        ([V2], [(V1, AVAILABLE)], [V2], []),
        ([V1, V2], [(V1, AVAILABLE)], [V2], []),
        # Files that change.
        ([V2_NEW], [(V1, AVAILABLE)], [V2], ["load 2"]),
        ([V2_NEW], [(V2, AVAILABLE)], [], ["load 2"]),
        ([V2_NEW], [(V2, LOADING)], [], ["drop 2", "load 2"]),
        ([V2_NEW], [(V2, AVAILABLE), (V2_NEW, LOADING)], [], []),
        ([V2], [(V2, AVAILABLE)], [V2_NEW], ["load 2"]),
    ],
)
def test_what_is_done(wanted, there, failed, expected):
    assert actions(wanted, there, failed) == expected


@pytest.mark.parametrize(
    ("wanted", "there", "failed", "expected"),
    [
        ([V1], [(V1, AVAILABLE)], [], []),
        ([GRAPH], [(GRAPH, AVAILABLE)], [], ["load 1"]),
        ([GRAPH], [(GRAPH, LOADING)], [], []),
        ([V2], [(V1, AVAILABLE)], [V2], ["load 2"]),
    ],
)
def test_what_is_done_when_somebody_asks_for_it(wanted, there, failed, expected):
    assert actions(wanted, there, failed, is_retry=True) == expected


def simulate(wanted, instances, failed, does_load):
    """Executes the actions until none is left, and returns the instances that answer."""
    for _ in range(10):
        found = reconcile(wanted, instances, failed)
        if not any(found):
            return [one.version.number for one in instances if one.state is AVAILABLE]
        for new in found.load:
            if does_load(new.number):
                instances.append(Instance(new, AVAILABLE))
            else:
                failed[new.number] = Failure(new, RuntimeError())
        for one in found.retire:
            one.step(Event.RETIRE)
    message = "it never comes to rest"
    raise AssertionError(message)


STATES = [None, AVAILABLE, UNLOADING, END]


@pytest.mark.parametrize("first", STATES)
@pytest.mark.parametrize("second", STATES)
@pytest.mark.parametrize("loads", [(), (1,), (2,), (1, 2)])
def test_from_everywhere_it_comes_to_rest_with_what_is_wanted_and_loads(first, second, loads):
    for wanted in ([], [V1], [V2], [V1, V2]):
        given = [(V1, first), (V2, second)]
        instances = [Instance(one, state) for one, state in given if state is not None]
        before = {one.version.number for one in instances if one.state is AVAILABLE}
        numbers = {one.number: one for one in wanted}
        found = simulate(numbers, instances, {}, loads.__contains__)
        answers = {n for n in numbers if n in before or n in loads}
        assert set(found) == (answers if answers or not wanted else before)
