"""The states of versions, and the actions to get from running to wanted versions.

Pure functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from modelflow.wire.tf_serving.documents import State

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from modelflow.serve.activity import VersionActivity
    from modelflow.serve.repository.source import ModelVersion
    from modelflow.serve.repository.work import Work
    from modelflow.serve.requests.served_model import ServedModel

ON_THE_WAY = (State.START, State.LOADING)


class Event(Enum):
    """An event in the life of an instance."""

    BEGIN = auto()
    """A thread has started to load the version."""
    LOAD = auto()
    """The version is loaded."""
    FAIL = auto()
    """The version has failed to load."""
    DROP = auto()
    """The load is no longer wanted."""
    RETIRE = auto()
    """New requests no longer reach the version."""
    UNLOAD = auto()
    """The flows of the version have ended."""


TRANSITIONS: Mapping[State, Mapping[Event, State]] = MappingProxyType(
    {
        State.START: {
            Event.BEGIN: State.LOADING,
            Event.LOAD: State.AVAILABLE,
            Event.FAIL: State.END,
            Event.DROP: State.END,
        },
        State.LOADING: {
            Event.LOAD: State.AVAILABLE,
            Event.FAIL: State.END,
            Event.DROP: State.END,
        },
        State.AVAILABLE: {Event.RETIRE: State.UNLOADING},
        State.UNLOADING: {Event.UNLOAD: State.END},
        State.END: {},
    }
)
"""The next state, by state and event.

A missing event is late and changes nothing. For example, LOAD
after DROP: the manager then unloads the version."""


@dataclass(eq=False, slots=True)
class Instance:
    """A single load of a version, from its start to the end of its flows.

    A version number may have several instances: an available one, its successor, and dropped loads.

    Attributes:
        version: The version.
        state: The state of the instance.
        work: The load on its thread.
        timer: The timer that gives up the load.
        model: The model that answers requests. None before the version is loaded.
        doing: The activity record of the version, once loaded.
        is_copied: The instance uses the copy of the version.
    """

    version: "ModelVersion"
    state: State = State.START
    work: "Work | None" = None
    timer: "TimerHandle | None" = None
    model: "ServedModel | None" = None
    doing: "VersionActivity | None" = None
    is_copied: bool = False

    def step(self, event: Event) -> bool:
        """Changes the state after an event.

        Returns False if the event is late and changes nothing.
        """
        following = TRANSITIONS[self.state].get(event)
        self.state = following or self.state
        return following is not None


class Failure(NamedTuple):
    """A failed version and its error."""

    version: "ModelVersion"
    error: Exception


class Actions(NamedTuple):
    """The next actions of a `VersionManager`."""

    drop: "list[Instance]"
    """Loads that are no longer wanted."""
    load: "list[ModelVersion]"
    retire: "list[Instance]"
    """Available versions that are no longer wanted."""


def reconcile(
    wanted: "Mapping[int, ModelVersion]",
    instances: Sequence[Instance],
    failed: Mapping[int, Failure],
    *,
    is_retry: bool = False,
) -> Actions:
    """Returns the actions that lead from the running versions to the wanted versions.

    An available version stays until every wanted version was tried and one of them is available.
    A version that fails to load therefore never removes the version before it.

    Args:
        wanted: The versions to serve, by number.
        instances: The existing instances.
        failed: The failed versions, by number. A version is tried again when its files change.
        is_retry: Tries failed versions again, and reloads versions whose stamp may miss a change.
    """
    loading = {one.version.number: one for one in instances if one.state in ON_THE_WAY}
    serving = {one.version.number: one for one in instances if one.state is State.AVAILABLE}
    actions = Actions([], [], [])
    for number, one in loading.items():
        if number not in wanted or one.version.stamp != wanted[number].stamp:
            actions.drop.append(one)
    for number, version in wanted.items():
        there = loading.get(number) or serving.get(number)
        before = failed.get(number) if number not in loading else None
        if before is not None:
            is_due = is_retry or before.version.stamp != version.stamp
        else:
            is_due = there is None or there.version.stamp != version.stamp
            is_due |= is_retry and number not in loading and not version.is_whole
        if is_due:
            actions.load.append(version)
    is_loading = actions.load or loading.keys() & wanted
    if not is_loading and (serving.keys() & wanted or not wanted):
        actions.retire.extend(one for number, one in serving.items() if number not in wanted)
    return actions
