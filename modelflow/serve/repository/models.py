"""The models that a server has, by name, version and label, and how each version fares."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from modelflow.errors import did_you_mean
from modelflow.serve.repository.states import ON_THE_WAY
from modelflow.serve.requests.model import Model
from modelflow.wire.problem import Code, Problem, refuse
from modelflow.wire.tf_serving.documents import State, VersionStatus

_FACTS = ("is_due", "is_settled", "is_complete", "reason")  # of an entry
_DIGITS = 19  # of the largest version: 2**63 - 1


@dataclass(slots=True)
class _Entry:
    """What is known under one name."""

    models: dict[int, Model] = field(default_factory=dict)
    newest: Model | None = None  # of these
    statuses: dict[int, VersionStatus] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    is_due: bool = False  # without it the server is not ready
    is_settled: bool = False  # all that was asked for was tried
    is_complete: bool = False  # all that was asked for has been there
    reason: str = ""  # why there are no versions
    peer: int | None = None  # the process that has it; None: this one

    def is_coming(self, number: int | None) -> bool:
        """Tells whether a version, or any, is being loaded."""
        if not self.statuses:
            return not self.is_settled
        found = self.statuses.values()
        return any(s.state in ON_THE_WAY and number in (None, s.version) for s in found)

    def amiss(self) -> str:
        """Why it is not all there; nothing: it is, or was, and something still is."""
        if self.is_complete and self.models:
            return ""
        if self.is_coming(None):
            return str(State.LOADING)
        found = self.statuses.values()
        failed = [f"version {s.version}: {s.error_message}" for s in found if s.error_message]
        return self.reason or "; ".join(failed) or str(State.END)


class Models:
    """What is served. For the server's thread, once it serves."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self.on_change: Callable[[], object] | None = None
        """Called when something of this is not as it was."""
        self.call_when_seen: Callable[[Callable[[], object]], object] = _at_once
        """Has somebody called when all who look here, in other processes too, have seen what has
        changed until now."""

    def __iter__(self) -> Iterator[Model]:
        """Gives what answers at this moment; from any thread."""
        entries = [*self._entries.values()]  # at once: the server's thread may change them
        return iter([model for entry in entries for model in [*entry.models.values()]])

    # -- what answers ---------------------------------------------------------------------------

    def versions(self, name: str) -> list[Model]:
        """Returns the versions of a model that answer, the newest first.

        Raises:
            Problem: there is no model of this name.
        """
        models = self._entry(name).models
        return [models[number] for number in sorted(models, reverse=True)]

    def find(self, name: str, version: str = "", label: str = "") -> Model:
        """Returns the model of a version (``""``, ``"0"``: the newest) or a label.

        Raises:
            Problem: there is none; with `Code.UNAVAILABLE`: it is being loaded.
        """
        entry = self._entries.get(name) or _NOBODY
        if entry.newest is not None and not (version or label):
            return entry.newest
        number = _number(version)
        if label:
            number = entry.labels.get(label)
            if number is None and not entry.is_coming(None):
                near = did_you_mean(label, entry.labels)
                refuse(f"Unrecognized servable version label: {label}{near}")
        found = entry.models.get(max(entry.models, default=0) if number is None else number)
        if found is not None and not (label and number is None):
            return found
        which = f"Latest({name})"
        if number is not None:
            which = f"Specific({name}, {number if label else version})"
        message = f"Servable not found for request: {which}"
        if entry.is_coming(number):
            refuse(f"{message}; it is {State.LOADING}, come again", Code.UNAVAILABLE)
        raise Problem(message, Code.NOT_FOUND)

    def add(self, model: Model) -> None:
        """Takes up a model, in the place of one of the same name and version."""
        self.expect(model.name)
        entry = self._entries[model.name]
        entry.models[model.version] = model
        entry.newest = entry.models[max(entry.models)]
        self.note(model.name, VersionStatus(model.version, State.AVAILABLE))

    def remove(self, model: Model) -> None:
        """Takes a model out: no request finds it any more. One that took its place stays."""
        entry = self._entries[model.name]
        models = entry.models
        if models.get(model.version) is model:
            del models[model.version]
            entry.newest = models[max(models)] if models else None
            self._on_change()

    # -- how they fare --------------------------------------------------------------------------

    def expect(self, name: str, *, is_due: bool = False, peer: int | None = None) -> None:
        """Notes that a model is asked for: until it is settled, it is being loaded.

        Args:
            name: The model's name.
            is_due: Without it the server is not ready. What comes later makes a server that is
                ready no less so, until it has been there.
            peer: The process that has it; None: this one.
        """
        entry = self._entries.setdefault(name, _Entry(peer=peer))
        entry.is_due = entry.is_due or is_due
        self._on_change()

    def dismiss(self, name: str) -> None:
        """Notes that a model is not asked for any more: the server is ready without it."""
        self._entries[name].is_due = self._entries[name].is_complete = False
        self._on_change()

    def forget(self, name: str) -> None:
        """Forgets a model that nobody asks for and that has no version left."""
        self._entries.pop(name, None)
        self._on_change()

    def note(self, name: str, status: VersionStatus) -> None:
        """Takes up how a version fares."""
        self._entries[name].statuses[status.version] = status
        self._on_change()

    def settle(self, name: str, *, is_complete: bool, reason: str = "") -> None:
        """Notes that all that was asked for of a model was tried, and why there is nothing."""
        entry = self._entries[name]
        entry.is_settled, entry.reason = True, reason
        if is_complete:
            entry.is_complete = entry.is_due = True
        self._on_change()

    def statuses(self, name: str, version: str = "", label: str = "") -> list[VersionStatus]:
        """Returns how the versions of a model fare, also those that have ended, newest first.

        Raises:
            Problem: there is no model of this name, or no such version of it.
        """
        found = self._entry(name).statuses
        number = self.find(name, label=label).version if label else _number(version)
        if number is None:
            return [found[each] for each in sorted(found, reverse=True)]
        if number not in found:
            refuse(f"Could not find version {version} of model {name}", Code.NOT_FOUND)
        return [found[number]]

    def index(self) -> Iterator[tuple[str, VersionStatus | None, str]]:
        """Gives every name, how its versions fare (None: there are none), and what is amiss."""
        for name, entry in self._entries.items():
            for number in sorted(entry.statuses):
                status = entry.statuses[number]
                yield name, status, status.error_message
            if not entry.statuses:
                yield name, None, entry.amiss()

    def unready(self) -> dict[str, str]:
        """Returns what was asked for and is not there, and why; nothing: all is."""
        found = {name: entry.amiss() for name, entry in self._entries.items() if entry.is_due}
        return {name: reason for name, reason in found.items() if reason}

    def _on_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # -- in another process ---------------------------------------------------------------------

    def document(self, key_of: Callable[[Model], object]) -> list[dict[str, Any]]:
        """Returns all this for JSON; ``key_of`` gives what stands for a model in it."""
        return [
            {
                "name": name,
                "models": [key_of(model) for model in entry.models.values()],
                "statuses": [list(astuple(status)) for status in entry.statuses.values()],
                "labels": entry.labels,
                **{key: getattr(entry, key) for key in _FACTS},
            }
            for name, entry in self._entries.items()
        ]

    def take(
        self, document: Iterable[Mapping[str, Any]], model_of: Callable[[Any], Model], peer: int
    ) -> None:
        """Takes what `document` has given in another process, in the place of what it had before.

        ``model_of`` gives the model that a key stands for, ``peer`` says which process it is.
        """
        kept = {name: entry for name, entry in self._entries.items() if entry.peer != peer}
        self._entries = {**kept, **{one["name"]: _entry(one, model_of, peer) for one in document}}
        self._on_change()

    def lose(self, peer: int) -> None:
        """Notes that a process has ended, and that all that it had will be loaded again."""
        for entry in self._entries.values():
            if entry.peer != peer:
                continue
            entry.models, entry.statuses, entry.labels = {}, {}, {}
            entry.newest = None
            entry.is_settled, entry.reason = False, ""
        self._on_change()

    # -- labels ---------------------------------------------------------------------------------

    def move_label(self, name: str, label: str, number: int) -> None:
        """Has a label name a version.

        Raises:
            Problem: the version is not loaded; the label stays where it was.
        """
        if number not in self._entry(name).models:
            refuse(
                f"Request to assign label {label!r} to version {number} of model {name!r}, which "
                "is not currently available for inference",
                Code.FAILED_PRECONDITION,
            )
        if self._entries[name].labels.get(label) != number:
            self._entries[name].labels[label] = number
            self._on_change()

    def keep_labels(self, name: str, labels: Mapping[str, int]) -> None:
        """Takes away the labels that are not among these."""
        kept = self._entries[name].labels
        for label in kept.keys() - labels.keys():
            del kept[label]
            self._on_change()

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or not entry.statuses:
            if entry is not None and entry.is_coming(None):
                refuse(f"model {name} is {State.LOADING}; come again", Code.UNAVAILABLE)
            refuse(f"Could not find any versions of model {name}", Code.NOT_FOUND)
        return entry


def _at_once(call: Callable[[], object]) -> None:
    """All who look are here."""
    call()


_NOBODY = _Entry(is_settled=True)


def _entry(found: Mapping[str, Any], model_of: Callable[[Any], Model], peer: int) -> _Entry:
    models = {model.version: model for model in map(model_of, found["models"])}
    statuses = (VersionStatus(n, State(state), *rest) for n, state, *rest in found["statuses"])
    return _Entry(
        models,
        models[max(models)] if models else None,
        {status.version: status for status in statuses},
        dict(found["labels"]),
        **{key: found[key] for key in _FACTS},
        peer=peer,
    )


def _number(version: str) -> int | None:
    """The number of a text of digits; None: the newest. No int is made of what none can be."""
    digits = version.lstrip("0")
    if not digits:
        return None
    return int(digits) if digits.isdecimal() and len(digits) <= _DIGITS else -1
