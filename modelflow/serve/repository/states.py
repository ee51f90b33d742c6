"""The states of versions, and what to do to get from what runs to what is wanted; pure."""

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
    """What happens to an instance."""

    BEGIN = auto()
    """A thread has begun to load the version."""
    LOAD = auto()
    """The version is loaded."""
    FAIL = auto()
    """The version does not load."""
    DROP = auto()
    """Nobody waits for the load any more."""
    RETIRE = auto()
    """No request finds the version any more."""
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
"""The state that follows on an event. An event that is not there comes late, and changes nothing:
of a load that was dropped, say, which is then undone."""


@dataclass(eq=False, slots=True)
class Instance:
    """One load of a version, from its start to the end of its flows.

    A number may have several: the one that answers, the next one, and those that nobody wants.

    Attributes:
        version: What is loaded.
        state: How far it is.
        work: What loads it.
        timer: When the load is given up.
        model: What answers; None: it is not loaded yet.
        doing: Where it is noted what is done for it, once it is loaded.
    """

    version: "ModelVersion"
    state: State = State.START
    work: "Work | None" = None
    timer: "TimerHandle | None" = None
    model: "ServedModel | None" = None
    doing: "VersionActivity | None" = None

    def step(self, event: Event) -> bool:
        """Takes up an event; False: it comes too late, and changes nothing."""
        following = TRANSITIONS[self.state].get(event)
        self.state = following or self.state
        return following is not None


class Failure(NamedTuple):
    """A version that has failed, and the reason."""

    version: "ModelVersion"
    error: Exception


class Actions(NamedTuple):
    """What to do next."""

    drop: "list[Instance]"
    """Loads that nobody wants any more."""
    load: "list[ModelVersion]"
    retire: "list[Instance]"
    """Versions that answer, and are not wanted any more."""


def reconcile(
    wanted: "Mapping[int, ModelVersion]",
    instances: Sequence[Instance],
    failed: Mapping[int, Failure],
    *,
    is_retry: bool = False,
) -> Actions:
    """Returns the actions that lead from what runs to what is wanted.

    A version that answers stays until every wanted version was tried and one of them answers: a
    version that does not load costs nobody the one before it.

    Args:
        wanted: The versions to serve, by number.
        instances: What is there.
        failed: The versions that have failed, by number; tried again when their files change.
        is_retry: What failed is tried again, and what may have changed unseen is loaded again.
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
