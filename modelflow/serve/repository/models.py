"""The table of a server's models by name, version and label, with the status of each version."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from modelflow.errors import did_you_mean
from modelflow.serve.repository.states import ON_THE_WAY
from modelflow.serve.requests.model import Model
from modelflow.serve.requests.state.shared_memory import SharedRegions
from modelflow.serve.traffic.shadows import Shadows
from modelflow.serve.traffic.split import Label, Split
from modelflow.wire.problem import Code, Problem, refuse
from modelflow.wire.tf_serving.documents import State, VersionStatus

_FACTS = ("is_due", "is_settled", "is_complete", "reason")  # of an entry
_DIGITS = 19  # of the largest version: 2**63 - 1


@dataclass(slots=True)
class _Entry:
    """The entry of a model name."""

    models: dict[int, Model] = field(default_factory=dict)
    newest: Model | None = None  # of ``models``
    statuses: dict[int, VersionStatus] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    is_due: bool = False  # the server is ready only with this model
    is_settled: bool = False  # every wanted version has loaded or failed
    is_complete: bool = False  # every wanted version was available once
    reason: str = ""  # the reason for a lack of versions
    peer: int | None = None  # the process that has the model; None for this process

    def is_coming(self, number: int | None) -> bool:
        """Tells whether a version is being loaded. None means any version."""
        if not self.statuses:
            return not self.is_settled
        found = self.statuses.values()
        return any(s.state in ON_THE_WAY and number in (None, s.version) for s in found)

    def is_label(self, version: str) -> bool:
        """Tells whether the text for a version is a label, or may be a label after the load."""
        is_word = bool(version) and not version.isdecimal()
        return is_word and (version in self.labels or self.is_coming(None))

    def amiss(self) -> str:
        """Returns the reason why the model is not ready, or ``""``.

        A model is ready if every wanted version was available once, and a version still is.
        """
        if self.is_complete and self.models:
            return ""
        if self.is_coming(None):
            return str(State.LOADING)
        found = self.statuses.values()
        failed = [f"version {s.version}: {s.error_message}" for s in found if s.error_message]
        return self.reason or "; ".join(failed) or str(State.END)


class Models:
    """The table of served models. For the server's thread, once the server runs."""

    def __init__(self, regions: SharedRegions | None = None) -> None:
        """Creates an empty table.

        Args:
            regions: The shared memory that requests may name. None if they may name none.
        """
        self.regions = SharedRegions() if regions is None else regions
        """The shared memory that requests may name."""
        self._entries: dict[str, _Entry] = {}
        self.shadows = Shadows()
        self.on_change: Callable[[], object] | None = None
        """Called after each change of the table."""
        self.call_when_seen: Callable[[Callable[[], object]], object] = _at_once
        """Calls a function when all readers, also in other processes, have seen all changes."""
        self.on_add: Callable[[Any], object] | None = None
        """Called with each signature of a model of this process before requests reach it."""

    def __iter__(self) -> Iterator[Model]:
        """Yields the models that are available now. From any thread."""
        # A copy, because the server's thread may change the table meanwhile.
        entries = [*self._entries.values()]
        return iter([model for entry in entries for model in [*entry.models.values()]])

    # -- available models -----------------------------------------------------------------------

    def versions(self, name: str) -> list[Model]:
        """Returns the available versions of a model, newest first.

        Raises:
            Problem: no model has this name.
        """
        models = self._entry(name).models
        return [models[number] for number in sorted(models, reverse=True)]

    def route(self, name: str, version: str = "", label: str = "") -> Model:
        """Returns the model for a request to infer; see `find`.

        A label with several versions gives each its share of the calls of this method.
        """
        entry = self._entries.get(name) or _NOBODY
        if entry.newest is not None and not (version or label):
            return entry.newest
        if entry.is_label(version):
            version, label = "", version
        found = entry.labels.get(label)
        chosen = None if found is None else found.choose(entry.models)
        if found is None or chosen is None:
            return self.find(name, version, label)
        return self.shadows.with_copies(chosen, found.choose_shadows(entry.models))

    def find(self, name: str, version: str = "", label: str = "") -> Model:
        """Returns the model of a version (``""``, ``"0"``: the newest) or a label.

        A label may also stand in place of the version. Of a label with several versions this is the
        version with the largest weight.

        Raises:
            Problem: the model is not found. The code is `Code.UNAVAILABLE` while it is being
                loaded.
        """
        entry = self._entries.get(name) or _NOBODY
        if entry.newest is not None and not (version or label):
            return entry.newest
        if entry.is_label(version):
            version, label = "", version
        number = _number(version)
        if label:
            target = entry.labels.get(label)
            main = None if target is None else target.find_main(entry.models)
            if main is not None:
                return main
            number = None if target is None else max(target.split.shares)
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
            refuse(f"{message}; it is {State.LOADING}, try again", Code.UNAVAILABLE)
        raise Problem(message, Code.NOT_FOUND)

    def add(self, model: Model) -> None:
        """Adds a model, or replaces the model of the same name and version."""
        if self.on_add is not None:
            for one in model.all_signatures():
                self.on_add(one)
        self.expect(model.name)
        entry = self._entries[model.name]
        entry.models[model.version] = model
        entry.newest = entry.models[max(entry.models)]
        self.note(model.name, VersionStatus(model.version, State.AVAILABLE))

    def remove(self, model: Model) -> None:
        """Removes a model, unless another model of the same version has taken its place."""
        entry = self._entries[model.name]
        models = entry.models
        if models.get(model.version) is model:
            del models[model.version]
            entry.newest = models[max(models)] if models else None
            self._on_change()

    # -- states ---------------------------------------------------------------------------------

    def expect(self, name: str, *, is_due: bool = False, peer: int | None = None) -> None:
        """Adds an entry for a wanted model, which counts as loading until `settle`.

        Args:
            name: The model's name.
            is_due: The server is not ready before this model is. False for a model that is added
                later, which leaves a ready server ready until all its versions were available.
            peer: The process that has the model. None for this process.
        """
        entry = self._entries.setdefault(name, _Entry(peer=peer))
        entry.is_due = entry.is_due or is_due
        self._on_change()

    def dismiss(self, name: str) -> None:
        """Marks a model as no longer wanted. The server is ready without the model."""
        self._entries[name].is_due = self._entries[name].is_complete = False
        self._on_change()

    def forget(self, name: str) -> None:
        """Removes the entry of an unwanted model that has no version left."""
        self._entries.pop(name, None)
        self._on_change()

    def note(self, name: str, status: VersionStatus) -> None:
        """Sets the status of a version."""
        self._entries[name].statuses[status.version] = status
        self._on_change()

    def settle(self, name: str, *, is_complete: bool, reason: str = "") -> None:
        """Notes that every wanted version of a model has loaded or failed.

        Args:
            name: The model's name.
            is_complete: Every wanted version is available.
            reason: The reason for a lack of versions.
        """
        entry = self._entries[name]
        entry.is_settled, entry.reason = True, reason
        if is_complete:
            entry.is_complete = entry.is_due = True
        self._on_change()

    def statuses(self, name: str, version: str = "", label: str = "") -> list[VersionStatus]:
        """Returns the statuses of a model's versions, also of ended versions, newest first.

        Raises:
            Problem: no model has this name, or the model has no such version.
        """
        found = self._entry(name).statuses
        number = self.find(name, label=label).version if label else _number(version)
        if number is None:
            return [found[each] for each in sorted(found, reverse=True)]
        if number not in found:
            refuse(f"Could not find version {version} of model {name}", Code.NOT_FOUND)
        return [found[number]]

    def index(self) -> Iterator[tuple[str, VersionStatus | None, str]]:
        """Yields each name with a version's status, or None without versions, and the error."""
        for name, entry in self._entries.items():
            for number in sorted(entry.statuses):
                status = entry.statuses[number]
                yield name, status, status.error_message
            if not entry.statuses:
                yield name, None, entry.amiss()

    def unready(self) -> dict[str, str]:
        """Returns the reasons why models are not ready, by name."""
        found = {name: entry.amiss() for name, entry in self._entries.items() if entry.is_due}
        return {name: reason for name, reason in found.items() if reason}

    def _on_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # -- in another process ---------------------------------------------------------------------

    def document(self, key_of: Callable[[Model], object]) -> list[dict[str, Any]]:
        """Returns the table for JSON. ``key_of`` returns the key that represents a model."""
        return [
            {
                "name": name,
                "models": [key_of(model) for model in entry.models.values()],
                "statuses": [list(astuple(status)) for status in entry.statuses.values()],
                "labels": {key: one.split.document() for key, one in entry.labels.items()},
                **{key: getattr(entry, key) for key in _FACTS},
            }
            for name, entry in self._entries.items()
        ]

    def take(
        self, document: Iterable[Mapping[str, Any]], model_of: Callable[[Any], Model], peer: int
    ) -> None:
        """Replaces the entries of another process with its `document`.

        Args:
            document: The result of `document` in the other process.
            model_of: Returns the model that a key represents.
            peer: The number of the process.
        """
        kept = {name: entry for name, entry in self._entries.items() if entry.peer != peer}
        before = {name: entry.labels for name, entry in self._entries.items()}
        self._entries = {**kept, **{one["name"]: _entry(one, model_of, peer) for one in document}}
        for name, entry in self._entries.items():  # labels keep their credits
            for key, old in before.get(name, {}).items():
                if key in entry.labels and entry.labels[key].split == old.split:
                    entry.labels[key] = old
        self._on_change()

    def lose(self, peer: int) -> None:
        """Marks the models of an ended process as loading, until a new process has them."""
        for entry in self._entries.values():
            if entry.peer != peer:
                continue
            entry.models, entry.statuses, entry.labels = {}, {}, {}
            entry.newest = None
            entry.is_settled, entry.reason = False, ""
        self._on_change()

    # -- labels ---------------------------------------------------------------------------------

    def move_label(self, name: str, label: str, target: int | Split) -> None:
        """Assigns a label to a version, or to several.

        Raises:
            Problem: none of the versions that answer is loaded. The label does not move.
        """
        split = Split.of(target)
        if not split.shares.keys() & self._entry(name).models.keys():
            numbers = ", ".join(map(str, split.shares))
            refuse(
                f"Request to assign label {label!r} to version {numbers} of model {name!r}, which "
                "is not currently available for inference",
                Code.FAILED_PRECONDITION,
            )
        known = self._entries[name].labels.get(label)
        if known is None or known.split != split:
            self._entries[name].labels[label] = Label(split)
            self._on_change()

    def keep_labels(self, name: str, labels: Mapping[str, object]) -> None:
        """Removes the labels that are not among these."""
        kept = self._entries[name].labels
        for label in kept.keys() - labels.keys():
            del kept[label]
            self._on_change()

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or not entry.statuses:
            if entry is not None and entry.is_coming(None):
                refuse(f"model {name} is {State.LOADING}; try again", Code.UNAVAILABLE)
            refuse(f"Could not find any versions of model {name}", Code.NOT_FOUND)
        return entry


def _at_once(call: Callable[[], object]) -> None:
    """Calls the function at once, because no other process reads the table."""
    call()


_NOBODY = _Entry(is_settled=True)


def _entry(found: Mapping[str, Any], model_of: Callable[[Any], Model], peer: int) -> _Entry:
    models = {model.version: model for model in map(model_of, found["models"])}
    statuses = (VersionStatus(n, State(state), *rest) for n, state, *rest in found["statuses"])
    return _Entry(
        models,
        models[max(models)] if models else None,
        {status.version: status for status in statuses},
        {key: Label(Split(*map(dict, one))) for key, one in found["labels"].items()},
        **{key: found[key] for key in _FACTS},
        peer=peer,
    )


def _number(version: str) -> int | None:
    """Returns the number of a version, None for the newest, or -1 for an invalid text.

    Texts with too many digits are not converted.
    """
    digits = version.lstrip("0")
    if not digits:
        return None
    return int(digits) if digits.isdecimal() and len(digits) <= _DIGITS else -1
